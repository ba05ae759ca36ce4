sub eq_deeply {
    my ($one, $other) = @_;
    return !defined $one && !defined $other unless defined $one && defined $other;
    return 0 if ref $one ne ref $other;
    if (ref $one eq 'ARRAY') {
        return @$one == @$other && !grep { !eq_deeply($one->[$_], $other->[$_]) } 0 .. $#$one;
    }
    if (ref $one eq 'HASH') {
        return keys %$one == keys %$other
            && !grep { !(exists $other->{$_} && eq_deeply($one->{$_}, $other->{$_})) } keys %$one;
    }
    return $one eq $other;
}
