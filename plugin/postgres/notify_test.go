package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/signals"
)

// statements are the arguments of each statement.
type statements [][]any

func (s *statements) Exec(_ context.Context, _ string, arguments ...any) (pgconn.CommandTag, error) {
	*s = append(*s, arguments)
	return pgconn.CommandTag{}, nil
}

func TestNotifySendsEveryKeyInOneStatement(t *testing.T) {
	var sent statements
	require.NoError(t, postgres.Notify(t.Context(), &sent, "hints", 7, "a b", "", "7 c"))
	require.NoError(t, postgres.Notify(t.Context(), &sent, "hints", signals.Unknown, "a b"))
	require.NoError(t, postgres.Notify(t.Context(), &sent, "hints", 7), "no key")
	assert.Equal(t, statements{
		{"hints", []string{"7 a b", "7 ", "7 7 c"}},
		{"hints", []string{" a b"}},
	}, sent)
}

// The server counts bytes, whatever the letters are. What is one byte too long is refused, and nothing is sent.
func TestBoundsAreInBytes(t *testing.T) {
	of := func(letter string, bytes int) string { // so many, ASCII where no more letters fit
		return strings.Repeat(letter, bytes/len(letter)) + strings.Repeat("a", bytes%len(letter))
	}
	connect := func(context.Context) (*pgx.Conn, error) { return nil, errors.New("nobody connects") }
	for _, letter := range []string{"a", "é", "漢", "😀"} {
		for channel, ok := range map[string]bool{
			of(letter, 62): true, of(letter, 63): true, of(letter, 64): false, of(letter, 63*len(letter)): letter == "a",
			"": false, letter + "\x00": false, letter + "\xff": false,
		} {
			var sent statements
			_, listens := postgres.Listen(connect, channel)
			notifies := postgres.Notify(t.Context(), &sent, channel, 7, "key")
			if ok {
				require.NoError(t, listens, "%q", channel)
				require.NoError(t, notifies, "%q", channel)
				assert.Len(t, sent, 1)
			} else {
				require.ErrorIs(t, listens, postgres.ErrKey, "%q", channel)
				require.ErrorIs(t, notifies, postgres.ErrKey, "%q", channel)
				assert.Empty(t, sent)
			}
		}
		for position, most := range map[int64]int{signals.Unknown: postgres.MaxPayload - 1, 7: postgres.MaxPayload - 2, -10: postgres.MaxPayload - 4} {
			var sent statements
			require.NoError(t, postgres.Notify(t.Context(), &sent, "hints", position, "key", of(letter, most)))
			require.ErrorIs(t, postgres.Notify(t.Context(), &sent, "hints", position, "key", of(letter, most+1)), postgres.ErrKey)
			require.Len(t, sent, 1)
			for _, payload := range sent[0][1].([]string) {
				assert.LessOrEqual(t, len(payload), postgres.MaxPayload)
			}
		}
	}
}
