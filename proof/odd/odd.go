// Package odd tries odd users: what is allowed to the code that a user hands to a package, and what few users do. Each package
// has a table, with a row for each thing that it is handed, whose cells say how it goes on with each odd user. [Check] compares the
// rows with the package's exported names: a thing that is new, and a cell that is missing, is an error.
package odd

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// User is what a user's code does.
type User string

// Odd users.
const (
	Panics    User = "panics"     // halfway
	Exits     User = "exits"      // with runtime.Goexit
	CallsBack User = "calls back" // into the package
	Closes    User = "closes"     // what it is a user of, and calls back
	Stays     User = "stays"      // does not return until the test is over
	Appends   User = "appends"    // to a slice
	Changes   User = "changes"    // the elements of a slice
	Keeps     User = "keeps"      // a slice, and changes it later
)

// ErrOdd is with what a user panics.
var ErrOdd = errors.New("an odd user")

// Row is about things that behave alike.
type Row[W any] struct {
	Of []string // the names of the things
	On string   // at which call; may be empty

	// Not says why no user's code is at work here. Then there is nothing more in the row.
	Not string
	// Do has the package call the user's code, [Do.Act], and returns what it has returned.
	Do func(w W, d *Do) string
	// Silent says that the package never calls the user's code, which then does nothing.
	Silent bool
	// Want is how it goes on: what Do returns, or "panics", "exits" or "stays" if the call of Do does, and what the world adds.
	Want map[User]string
}

// World is what a cell happens in. It is made in a bubble of testing/synctest.
type World interface {
	Back()        // calls back, from within a user's code
	Close()       // closes everything, from there
	Seen() string // what else has happened since the cell began; empty if nothing
	Beside()      // asserts that all who have nothing to do with the odd user go on, while it may not have returned
	End()         // asserts that everything can be brought to its end; all users behave by now
}

// Do is what a user's code does in one cell.
type Do struct {
	User  User
	Of    string // the thing
	world World
	well  atomic.Bool // no longer odd
	back  atomic.Bool // it has called back
	calls atomic.Int32
	leave chan struct{}
	later []func()

	silent bool // as in Row
}

// Act is what a function of the user's does. It calls back once, since a check that is made in each try causes another try.
func (d *Do) Act() {
	if d.well.Load() {
		return
	}
	if d.calls.Add(1); d.silent {
		return
	}
	switch d.User {
	case Panics:
		panic(ErrOdd)
	case Exits:
		runtime.Goexit()
	case CallsBack:
		if !d.back.Swap(true) {
			d.world.Back()
		}
	case Closes:
		if !d.back.Swap(true) {
			d.world.Close()
			d.world.Back()
		}
	case Stays:
		<-d.leave
	}
}

// Slice is what a function of the user's does with a slice that it was given, or that it has handed over; wild is what it writes there.
// The spare elements are the user's only if it has made the slice.
func Slice[E any](d *Do, s []E, wild E) {
	if d.well.Load() {
		return
	}
	d.calls.Add(1)
	spoil := func() {
		for i := range s {
			s[i] = wild
		}
	}
	switch d.User {
	case Appends:
		_ = append(s, wild, wild)
	case Changes:
		spoil()
	case Keeps:
		d.later = append(d.later, spoil)
	}
}

// Spoil changes the slices that the user has kept. Otherwise that happens when Do has returned.
func (d *Do) Spoil() {
	for _, spoil := range d.later {
		spoil()
	}
}

// Check tries every odd user in every row of a table, and asserts that the table has a cell for each odd user of each thing that the
// package in the folder is handed.
func Check[W World](t *testing.T, folder string, world func(t *testing.T) W, rows []Row[W]) {
	t.Helper()
	switch things, err := handed(folder); {
	case errors.Is(err, exec.ErrNotFound):
		t.Log("there is no go command to ask what users hand over")
	case err != nil:
		t.Fatal(err)
	default:
		for _, missing := range compare(things, rows) {
			t.Error(missing)
		}
	}
	for _, row := range rows {
		for _, of := range row.Of {
			for user, want := range row.Want {
				name := fmt.Sprintf("%s %s %s", of, user, row.On)
				t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { cell(t, world, row, of, user, want) }) })
			}
		}
	}
}

// compare returns which cells are missing, and which rows are about nothing.
func compare[W World](things []thing, rows []Row[W]) (wrong []string) {
	for _, row := range rows {
		for _, of := range row.Of {
			if !slices.ContainsFunc(things, func(t thing) bool { return t.name == of }) {
				wrong = append(wrong, fmt.Sprintf("a row is about %s, which nobody hands over", of))
			}
		}
	}
	for _, thing := range things {
		for _, user := range thing.users() {
			if !slices.ContainsFunc(rows, func(r Row[W]) bool {
				_, has := r.Want[user]
				return slices.Contains(r.Of, thing.name) && (has || r.Not != "")
			}) {
				wrong = append(wrong, fmt.Sprintf("no row says how it goes on if the user of %s %s", thing.name, user))
			}
		}
	}
	return wrong
}

func cell[W World](t *testing.T, world func(t *testing.T) W, row Row[W], of string, user User, want string) {
	t.Helper()
	w := world(t)
	d := &Do{User: user, Of: of, world: w, leave: make(chan struct{}), silent: row.Silent}
	got := d.call(func() string { return row.Do(w, d) })
	if seen := w.Seen(); seen != "" {
		got += ", " + seen
	}
	if got != want {
		t.Errorf("it went on with %q, want %q", got, want)
	}
	if called := d.calls.Load() > 0; called == row.Silent {
		t.Errorf("the user's code was called: %v", called)
	}
	d.Spoil()
	w.Beside()
	d.well.Store(true)
	close(d.leave)
	w.End()
	time.Sleep(time.Hour) // what is left of the call ends
	synctest.Wait()
}

// call calls f on a goroutine, and returns what f does, or how the goroutine has ended. An hour of the bubble's later it stays.
func (d *Do) call(f func() string) string {
	ended := make(chan string, 1)
	go func() {
		how := "exits"
		defer func() {
			switch v := recover(); v {
			case nil:
			case ErrOdd:
				how = "panics"
			default:
				how = fmt.Sprintf("panics with %v", v)
			}
			ended <- how
		}()
		how = f()
	}()
	select {
	case how := <-ended:
		return how
	case <-time.After(time.Hour):
		return "stays"
	}
}
