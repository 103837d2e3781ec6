package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/delayedop/purgatory/signals"
)

// ErrKey: a key cannot be part of a notification, or the name of a channel is not valid.
var ErrKey = errors.New("postgres: invalid key")

const (
	// MaxPayload is how many bytes a notification carries: position, a space, the key.
	MaxPayload = 7999
	maxChannel = 63
)

// Execer is a connection, a pool or a transaction of pgx.
type Execer interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// Notify tells listeners that keys have changed up to position (signals.Unknown if there is
// none). In a transaction it takes effect when the transaction commits. It sends one
// statement for all keys. Errors: ErrKey if a key is not UTF-8, has a zero byte, or is too
// long, and then nothing has been sent; and those of db.
func Notify(ctx context.Context, db Execer, channel string, position int64, keys ...string) error {
	if err := checkChannel(channel); err != nil {
		return err
	}
	payloads := make([]string, len(keys))
	for i, key := range keys {
		payload, err := encode(key, position)
		if err != nil {
			return err
		}
		payloads[i] = payload
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := db.Exec(ctx, "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload", channel, payloads)
	return err
}

func checkChannel(name string) error {
	if name == "" || len(name) > maxChannel || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w: the channel is %q, must be 1 to %d bytes of UTF-8", ErrKey, name, maxChannel)
	}
	return nil
}

// encode returns a payload: the position, nothing if it is unknown, a space, the key.
func encode(key string, position int64) (string, error) {
	if !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return "", fmt.Errorf("%w: %q is not UTF-8 without zero bytes", ErrKey, key)
	}
	payload := " " + key
	if position != signals.Unknown {
		payload = strconv.FormatInt(position, 10) + payload
	}
	if len(payload) > MaxPayload {
		return "", fmt.Errorf("%w: a payload of %d bytes, the maximum is %d", ErrKey, len(payload), MaxPayload)
	}
	return payload, nil
}

// decode is the inverse of encode. What has no space is somebody else's: a key without a
// position.
func decode(payload string) (key string, position int64) {
	number, key, ok := strings.Cut(payload, " ")
	if !ok {
		return payload, signals.Unknown
	}
	if number == "" {
		return key, signals.Unknown
	}
	position, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return payload, signals.Unknown
	}
	return key, position
}
