package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// askEvery is how often the source asks how full the queue of notifications is. The answer also
// shows that the connection stands, so that it is how long the answer may take, too.
const askEvery = 10 * time.Second

// serverPatience is how long the server keeps a connection whose other end takes nothing and
// answers nothing. Until then its session holds every notification in the server's queue. It
// is a variable for the tests.
var serverPatience = 30 * time.Second

// giveUpLater has the server end the session of conn if the other end is gone without a word.
// It does nothing where the server's system cannot do that, or conn is not TCP.
func giveUpLater(ctx context.Context, conn *pgx.Conn) error {
	seconds := int(serverPatience / time.Second)
	_, err := conn.Exec(ctx, fmt.Sprintf(`DO $$ BEGIN
		PERFORM set_config('tcp_user_timeout', '%ds', false);
		PERFORM set_config('tcp_keepalives_idle', '%d', false);
		PERFORM set_config('tcp_keepalives_interval', '%d', false);
		PERFORM set_config('tcp_keepalives_count', '3', false);
		EXCEPTION WHEN OTHERS THEN NULL; END $$`, seconds, max(seconds/3, 1), max(seconds/9, 1)))
	return err
}

// usage is how full the server's queue of notifications was when the source last asked, in
// millionths plus one; 0: it has not asked.
type usage struct{ atomic.Int64 }

// ask asks the server how full its queue is.
func (u *usage) ask(ctx context.Context, conn *pgx.Conn) error {
	within, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	var used float64
	if err := conn.QueryRow(within, "SELECT pg_notification_queue_usage()").Scan(&used); err != nil {
		return err
	}
	u.Store(int64(used*1e6) + 1)
	return nil
}

// QueueUsed implements signals.Queued: it returns how full the server's queue of notifications
// was when the source last asked, from 0 to 1; negative if it has not. The queue is full of
// what some session has not taken, of any database of the server. When it is full, the
// commits of the transactions that notify fail.
func (s *Source) QueueUsed() float64 {
	n := s.used.Load()
	if n == 0 {
		return -1
	}
	return float64(n-1) / 1e6
}
