package recipes

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/signals"
)

// pay is a change and its hint in one transaction: the hint is sent when tx commits, and not otherwise.
func pay(ctx context.Context, tx pgx.Tx, order string) error {
	if _, err := tx.Exec(ctx, "UPDATE orders SET paid = true WHERE id = $1", order); err != nil {
		return err
	}
	return postgres.Notify(ctx, tx, "orders", signals.Unknown, order)
}

// put is a change of a NATS bucket, and its own hint.
func put(ctx context.Context, bucket jetstream.KeyValue, order string, state []byte) error {
	key, err := natssignals.Encode(order)
	if err != nil {
		return err
	}
	_, err = bucket.Put(ctx, key, state)
	return err
}

// change is a change of any database, and its hint on core NATS afterwards. An error may mean that
// only the hint failed.
func change(ctx context.Context, commit func(context.Context) (version int64, err error),
	nc *nats.Conn, order string,
) error {
	version, err := commit(ctx)
	if err != nil {
		return err
	}
	return natssignals.Hint(nc, "hints.orders", order, version)
}
