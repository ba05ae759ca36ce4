"""A second machine: `trivet up --listen ADDRESS` offers a token, and `trivet join TOKEN` takes it.

certificates   TLS of the server, and what its clients trust
tokens         address, certificate pin and a secret, in one line
offering       the server's side: gives settings for the secret
joining        the other machine's side: takes them, checks each, keeps them
joined         the settings that were kept
"""
