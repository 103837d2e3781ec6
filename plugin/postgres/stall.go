package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// serverPatience is how long the server keeps a connection whose other end takes nothing and
// answers nothing. Until then its session holds every notification in the server's queue. It
// is a variable for the tests.
var serverPatience = 30 * time.Second

// giveUpLater has the server end the session of conn if the other end is gone without a word, and
// keep it while nothing is said. It leaves out what the server, or its system, cannot do.
func giveUpLater(ctx context.Context, conn *pgx.Conn) error {
	seconds := int(serverPatience / time.Second)
	_, err := conn.Exec(ctx, fmt.Sprintf(`DO $$
		DECLARE setting text[];
		BEGIN
			FOREACH setting SLICE 1 IN ARRAY ARRAY[['tcp_user_timeout', '%ds'], ['tcp_keepalives_idle', '%d'],
				['tcp_keepalives_interval', '%d'], ['tcp_keepalives_count', '3'], ['idle_session_timeout', '0']]
			LOOP
				BEGIN
					PERFORM set_config(setting[1], setting[2], false);
				EXCEPTION WHEN OTHERS THEN NULL; -- this server has no such setting
				END;
			END LOOP;
		END $$`, seconds, max(seconds/3, 1), max(seconds/9, 1)))
	return err
}

// usage is how full the server's queue of notifications was when the source last asked, in
// millionths plus one; 0: it has not asked.
type usage struct{ atomic.Int64 }

func (u *usage) set(used float64) { u.Store(int64(used*1e6) + 1) }

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
