package postgres_test

import (
	"context"
	"testing"

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
