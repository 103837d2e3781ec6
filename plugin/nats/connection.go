package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/delayedop/purgatory/signals"
)

// patience is about how long a server may take to confirm a subscription. It is a variable for
// the tests.
var patience = 5 * time.Second

// errClosed: nothing makes the connection again.
var errClosed = fmt.Errorf("%w, by the program or because the client has given up; nats.MaxReconnects(-1) and "+
	"nats.IgnoreAuthErrorAbort keep it from doing so; %w", nats.ErrConnectionClosed, signals.ErrFinal)

// link watches a connection of the user's.
type link struct {
	nc     *nats.Conn
	events chan nats.Status
	before error // the connection's last error when the link began
}

// watch begins to watch nc. What happens to the connection from here on is in events;
// beyond ten events that nobody has taken the later ones are not, which is no harm:
// the connection is looked at after each.
func watch(nc *nats.Conn) link {
	return link{nc, nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED), nc.LastError()}
}

func (l link) close() { l.nc.RemoveStatusListener(l.events) }

// connected waits until the connection stands, and has taken notice of every event. It
// fails when the connection is closed, by the user or after its last attempt.
func (l link) connected(ctx context.Context) error {
	for {
		if l.nc.IsClosed() {
			return errClosed
		}
		if l.nc.IsConnected() && len(l.events) == 0 {
			return nil
		}
		select {
		case <-l.events:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// broken returns why a source ends after an event.
func (l link) broken() error {
	if l.nc.IsClosed() {
		return errClosed
	}
	return nats.ErrDisconnected
}

// rights returns the error with which the server has refused, since the link began, a right to subjects
// that begin so.
func (l link) rights(subjects string) error {
	if err := l.nc.LastError(); refuses(err, subjects) && !errors.Is(err, l.before) {
		return err
	}
	return nil
}

func refuses(err error, subjects string) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `"`+subjects)
}

// why adds the connection's last error, as the server has put it. If that is about subjects that begin
// so, it also says which right is missing.
func (l link) why(err error, subjects, right string) error {
	last := l.nc.LastError()
	if refuses(last, subjects) {
		err = fmt.Errorf("%w; the connection's user must be allowed to %s %q", err, right, subjects+">")
	}
	if last == nil || errors.Is(err, last) {
		return err
	}
	return fmt.Errorf("%w; the connection's last error: %w", err, last)
}

// deaf reports whether no answer to a request reaches the client although it is connected.
func (l link) deaf(ctx context.Context) bool {
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := l.nc.RequestWithContext(within, l.nc.NewInbox(), nil) // the server says that nobody listens there
	return errors.Is(err, context.DeadlineExceeded) && l.nc.IsConnected()
}

// inboxes returns how the subjects begin on which the client hears answers.
func inboxes(nc *nats.Conn) string {
	prefix := nc.Opts.InboxPrefix
	if prefix == "" {
		prefix = "_INBOX"
	}
	return strings.TrimSuffix(prefix, ".") + "."
}
