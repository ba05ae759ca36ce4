
class Pair<A, B> {
    private final A first;
    private final B second;

    Pair(A first, B second) { this.first = first; this.second = second; }
    static <A, B> Pair<A, B> with(A first, B second) { return new Pair<>(first, second); }
    A getValue0() { return first; }
    B getValue1() { return second; }
    <C> Pair<C, B> setAt0(C value) { return with(value, second); }
    <C> Pair<A, C> setAt1(C value) { return with(first, value); }
    Object getValue(int at) { return at == 0 ? first : second; }
    int getSize() { return 2; }
    @Override public int hashCode() { return java.util.Objects.hash(first, second); }
    @Override public String toString() { return "[" + first + ", " + second + "]"; }
    @Override public boolean equals(Object other) {
        return other instanceof Pair<?, ?> pair
            && java.util.Objects.equals(first, pair.first) && java.util.Objects.equals(second, pair.second);
    }
}
