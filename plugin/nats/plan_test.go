package nats_test

import (
	"math/rand/v2"
	"time"
)

// fault is what goes wrong with a connection.
type fault int

const (
	none         fault = iota
	refused            // nobody listens
	breaks             // the connection breaks after a while, and loses what is under way
	silent             // nothing comes any more after a while, nor arrives
	subsRefused        // the user may not subscribe to anything but inboxes
	inboxRefused       // nor may he to inboxes
	apiLost            // requests to JetStream are lost: each, or every other one
	apiFails           // they fail
	apiBreaks          // the connection breaks instead of the answer
	forgotten          // the server forgets the consumer after a while, as when it starts anew
	drops              // some messages never come
	anew               // the stream was made anew, with the same state and lower revisions
	revoked            // the right to the subscription is taken away after a while, and given back at once
	deafened           // nothing is delivered for a while, although subscriptions are accepted
	routeIsCut         // for a while nothing comes from elsewhere, and later once more
	faults
)

var faultNames = [faults]string{
	"none", "refused", "breaks", "silent", "subscriptions are refused", "inboxes are refused", "requests are lost", "requests fail",
	"breaks at a request", "the consumer is forgotten", "messages are dropped", "the stream is new", "rights are taken away", "nothing is delivered", "a route is cut",
}

func (f fault) String() string { return faultNames[f] }

// plan is the fate of a connection.
type plan struct {
	fault fault
	after time.Duration // of what happens after a while
	every int           // what happens to some happens to every so many
	delay time.Duration // of what the server sends
	early bool          // a consumer's messages come before the answer to the request that makes it
	twice bool          // messages come twice
}

// faulty is how many connections may have a fault. So a program comes to its end.
const faulty = 6

// plan draws the fate of the n-th connection, which depends on nothing else.
func (s *scripted) plan(n int) (p plan) {
	if s.calm {
		return plan{every: 1, delay: time.Millisecond}
	}
	d := rand.New(rand.NewPCG(s.seed, uint64(n)))
	p = plan{
		after: time.Duration(d.Int64N(int64(20 * time.Millisecond))), every: 1 + d.IntN(3), delay: time.Duration(d.IntN(3)) * time.Millisecond,
		early: d.IntN(2) == 0, twice: d.IntN(4) == 0,
	}
	if d.IntN(2) == 0 {
		p.after = time.Duration(d.Int64N(int64(20 * time.Second)))
	}
	if n < faulty {
		p.fault = fault(d.IntN(int(faults)))
	}
	return p
}
