package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/proof/odd"
	"github.com/delayedop/purgatory/signals"
)

// nobody is a world without a server.
type nobody struct{ *testing.T }

func (nobody) Back()        { _, _ = Listen(nil, "back") }
func (nobody) Close()       {}
func (nobody) Seen() string { return "" }
func (nobody) Beside()      {}
func (nobody) End()         {}

// oddExecer is a connection of the user's.
type oddExecer func(arguments []any)

func (o oddExecer) Exec(_ context.Context, _ string, arguments ...any) (tag pgconn.CommandTag, err error) {
	o(arguments)
	return tag, nil
}

type noSink struct{ signals.Sink[string] }

var errNobody = errors.New("there is no server")

func TestOddUsersOfNotifications(t *testing.T) {
	atOnce := func(result string) map[odd.User]string {
		return map[odd.User]string{odd.Panics: "panics", odd.Exits: "exits", odd.CallsBack: result, odd.Closes: result, odd.Stays: "stays"}
	}
	exec := atOnce("nil")
	for _, user := range []odd.User{odd.Appends, odd.Changes, odd.Keeps} {
		exec[user] = "nil"
	}
	odd.Check(t, ".", func(t *testing.T) nobody { return nobody{t} }, []odd.Row[nobody]{
		{Of: []string{"Sink.Changed", "Sink.Heard", "Sink.Missed", "Sink.Subscribed", "Source.Run(ctx)"}, Not: "a Runner runs a source, with a context of its own"},
		{Of: []string{"Notify(ctx)"}, Not: "it goes to the Execer"},
		{
			Of: []string{"Listen(connect)"}, Want: atOnce("it fails"),
			Do: func(w nobody, d *odd.Do) string {
				s, err := Listen(func(context.Context) (*pgx.Conn, error) { d.Act(); return nil, errNobody }, "odd")
				assert.NoError(w, err)
				assert.ErrorIs(w, s.Run(context.Background(), noSink{}), errNobody)
				return "it fails"
			},
		},
		{
			Of: []string{"Execer.Exec", "Notify(keys)"}, Want: exec,
			Do: func(w nobody, d *odd.Do) string {
				keys := append(make([]string, 0, 4), "a", "b")
				err := Notify(context.Background(), oddExecer(func(arguments []any) {
					if d.Of == "Notify(keys)" {
						odd.Slice(d, keys, "wild")
					} else {
						odd.Slice(d, arguments[1].([]string), "wild")
					}
					if d.Of == "Notify(keys)" {
						assert.Equal(w, []string{" a", " b"}, arguments[1])
					} else {
						assert.Equal(w, []string{"a", "b"}, keys)
					}
					d.Act()
				}), "odd", signals.Unknown, keys...)
				assert.NoError(w, err)
				return "nil"
			},
		},
	})
}
