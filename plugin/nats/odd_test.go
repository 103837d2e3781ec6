package nats

import (
	"testing"

	"github.com/delayedop/purgatory/proof/odd"
)

// nothing is a world in which nothing happens.
type nothing struct{}

func (nothing) Back()        {}
func (nothing) Close()       {}
func (nothing) Seen() string { return "" }
func (nothing) Beside()      {}
func (nothing) End()         {}

// No code of a user's runs in this package; this says so, and what is new has to say it, too.
func TestOddUsersOfNATS(t *testing.T) {
	odd.Check(t, ".", func(*testing.T) nothing { return nothing{} }, []odd.Row[nothing]{
		{Of: []string{"BucketSource.Run(ctx)", "SubjectSource.Run(ctx)"}, Not: "a Runner runs a source, with a context of its own"},
		{Of: []string{"Sink.Changed", "Sink.Heard", "Sink.Missed", "Sink.Subscribed"}, Not: "a Runner hands itself to the source"},
		{Of: []string{"KeyValueOf(js)"}, Not: "package jetstream makes it"},
	})
}
