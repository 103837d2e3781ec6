package main

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadline is that of whatever a test waits for.
const deadline = time.Minute

// TestSubjects lets waits stand on two keys and advances one of them by half: those that
// are due end, once each, and no others, neither then nor when the subject closes.
func TestSubjects(t *testing.T) {
	const keys, positions = 2, 20
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) {
			s := m.make(keys)
			var ended [keys][positions + 1]atomic.Int64
			p := newProgress()
			for key := range keys {
				for position := 1; position <= positions; position++ {
					s.Start(key, int64(position), func() { ended[key][position].Add(1); p.done() })
				}
			}
			require.NoError(t, registered(s, p, keys*positions))

			s.Advance(1, positions/2)
			p.expect(positions / 2)
			require.Zero(t, p.wait(), "waits that are due did not end")
			require.Eventually(t, func() bool { return s.Waiting() == keys*positions-positions/2 }, deadline, time.Millisecond)

			closed := make(chan struct{})
			go func() { s.Close(); close(closed) }()
			select {
			case <-closed:
			case <-time.After(deadline):
				t.Fatal("Close did not return within a minute")
			}
			for key := range keys {
				for position := 1; position <= positions; position++ {
					want := 0
					if key == 1 && position <= positions/2 {
						want = 1
					}
					require.EqualValues(t, want, ended[key][position].Load(), "key %d, position %d", key, position)
				}
			}
		})
	}
}

func TestResults(t *testing.T) {
	for _, m := range resultMakers {
		t.Run(m.name, func(t *testing.T) {
			ended := make(chan bool, 2)
			go func() {
				for _, measure := range []func(results, int) (figures, bool){sameGoroutine, otherGoroutine} {
					r := m.make()
					_, right := measure(r, 100)
					r.Close()
					ended <- right
				}
			}()
			for range 2 {
				select {
				case right := <-ended:
					require.True(t, right, "a waiter got another's result")
				case <-time.After(deadline):
					t.Fatal("a result did not come within a minute")
				}
			}
		})
	}
}

// TestTables checks that a short run fills every cell.
func TestTables(t *testing.T) {
	var out strings.Builder
	ended := make(chan error, 1)
	go func() { ended <- run(&out, plan{waiters: []int{1, 3}, burst: 10, lasts: 3, results: 10}) }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(5 * deadline):
		t.Fatal("the tables were not there within five minutes")
	}
	first, second, found := strings.Cut(strings.TrimSpace(out.String()), "\n\n")
	require.True(t, found, "there are two tables")
	for table, columns := range map[string]int{first: len(makers), second: len(resultMakers)} {
		for line := range strings.Lines(table) {
			cells := strings.Split(strings.TrimSpace(line), " | ")
			if strings.HasPrefix(line, "| ---") {
				continue
			}
			require.Len(t, cells, columns+1, line)
		}
	}
}

func TestWords(t *testing.T) {
	require.Equal(t, "999 ns", short(999))
	require.Equal(t, "1.5 µs", short(1500))
	require.Equal(t, "150 µs", short(150*time.Microsecond))
	require.Equal(t, "1500.0 ms", short(1500*time.Millisecond))
	require.Equal(t, "100,000", count(100_000))
	require.Equal(t, "2.0 µs, 1,001 lost", figures{elapsed: 2000, lost: 1001}.cell("2.0 µs"))
	require.Equal(t, "3 lost", figures{lost: 3}.cell("0 ns"))
}
