package postgres_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// fault is what goes wrong with a connection.
type fault int

const (
	none         fault = iota
	refused            // nobody listens
	silentAtOnce       // the server says nothing
	starting           // it refuses, because it starts
	listenFails        // an error instead of an answer to LISTEN
	listenLost         // the connection breaks instead; the server may have begun to listen or not
	listenSilent       // nothing comes instead; likewise
	breaks             // it breaks after a while, and loses what is under way
	silent             // nothing comes any more after a while, nor arrives
	askFails           // an error instead of an answer to the question how full the queue is
	askSilent          // nothing comes instead, although notifications do
	settingsFail       // the server refuses the settings
	deafAtOnce         // the statements are answered, and no notification comes
	deafLater          // nor one any more after a while
	otherSession       // a proxy gives the connection another session after a while, which does not listen
	faults
)

var faultNames = [faults]string{
	"none", "refused", "silent at once", "starting", "LISTEN fails", "LISTEN is lost", "LISTEN is not answered", "breaks", "silent",
	"the question fails", "the question is not answered", "the settings fail",
	"no notification comes", "no notification comes any more", "another session",
}

func (f fault) String() string { return faultNames[f] }

// plan is the fate of a connection.
type plan struct {
	fault   fault
	after   time.Duration // of what happens after a while
	began   bool          // the server listens before LISTEN is lost
	twice   int           // every so many notifications one comes twice; 0: none
	strange bool          // others notify on the channel
	delay   time.Duration // of each statement and each notification
	pooled  bool          // a pooler stands between
}

func (p plan) String() string {
	return strings.Join([]string{p.fault.String(), p.after.String(), strconv.FormatBool(p.began), strconv.Itoa(p.twice), strconv.FormatBool(p.strange), p.delay.String()}, ", ")
}

// faulty is how many connections may have a fault. So a program comes to its end.
const faulty = 6

// plan draws the fate of the n-th connection, which depends on nothing else.
func (s *server) plan(n int) (p plan) {
	if n < len(s.fates) {
		return s.fates[n]
	}
	d := rand.New(rand.NewPCG(s.seed, uint64(n)))
	p = plan{
		after: time.Duration(d.Int64N(int64(20 * time.Millisecond))), began: d.IntN(2) == 0, twice: d.IntN(4), strange: d.IntN(3) == 0,
		delay: time.Duration(d.IntN(3)) * time.Millisecond,
	}
	if d.IntN(4) == 0 {
		p.after = time.Duration(d.Int64N(int64(30 * time.Second)))
	}
	p.pooled = d.IntN(4) == 0
	if n < faulty {
		p.fault = fault(d.IntN(int(faults)))
	}
	return p
}
