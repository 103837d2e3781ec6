package nats

import (
	"errors"
	"fmt"
	"strings"
)

// ErrKey: a key cannot be part of a subject, or a subject is no encoded key.
var ErrKey = errors.New("nats: invalid key")

// MaxKey is how many bytes an encoded key has at most. A server takes subjects of 4096
// bytes, with what else is in the line.
const MaxKey = 2048

const hexadecimal = "0123456789ABCDEF"

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '/'
}

// Encode returns key as one token of a subject, and as a key of a bucket. Error: ErrKey
// if key is empty, or longer than MaxKey when it is encoded.
func Encode(key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("%w: it is empty", ErrKey)
	}
	escaped := 0
	for i := range len(key) {
		if !plain(key[i]) {
			escaped++
		}
	}
	if n := len(key) + 2*escaped; n > MaxKey {
		return "", fmt.Errorf("%w: it has %d bytes when it is encoded, the maximum is %d", ErrKey, n, MaxKey)
	}
	if escaped == 0 {
		return key, nil
	}
	var b strings.Builder
	b.Grow(len(key) + 2*escaped)
	for i := range len(key) {
		if c := key[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'=', hexadecimal[c>>4], hexadecimal[c&15]})
		}
	}
	return b.String(), nil
}

// Decode returns the key that Encode has encoded. It leaves a token without '=' as it is. Error:
// ErrKey if token has an escape that Encode does not write, so that it is somebody else's.
func Decode(token string) (string, error) {
	if !strings.Contains(token, "=") {
		return token, nil
	}
	var b strings.Builder
	b.Grow(len(token))
	for i := 0; i < len(token); i++ {
		if token[i] != '=' {
			b.WriteByte(token[i])
			continue
		}
		if i+2 >= len(token) {
			return "", fmt.Errorf("%w: %q ends within an escape", ErrKey, token)
		}
		high, low := strings.IndexByte(hexadecimal, token[i+1]), strings.IndexByte(hexadecimal, token[i+2])
		if high < 0 || low < 0 {
			return "", fmt.Errorf("%w: %q has an escape that is not hexadecimal", ErrKey, token)
		}
		c := byte(high<<4 | low)
		if plain(c) {
			return "", fmt.Errorf("%w: %q has an escape for %q, which needs none", ErrKey, token, c)
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), nil
}
