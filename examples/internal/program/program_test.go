package program

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestStatusIsTheVerdict(t *testing.T) {
	assert.NoError(t, Verdict(nil))
	for _, test := range []struct {
		err    error
		status int
		says   string
	}{
		{nil, OK, ""},
		{flag.ErrHelp, OK, ""},
		{Verdict([]string{"lost", "twice"}), Failed, "show: BROKEN: lost\nBROKEN: twice\n"},
		{errors.New("no port"), Failed, "show: no port\n"},
		{errors.Join(ErrUsage, errors.New("-n 0")), Usage, "usage\n-n 0\n"},
	} {
		var errs strings.Builder
		assert.Equal(t, test.status, Status("show", test.err, &errs), "%v", test.err)
		assert.Equal(t, test.says, errs.String())
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		args string
		is   error
		says string
	}{
		{"-n 3", nil, ""},
		{"-h", flag.ErrHelp, ""},
		{"-n 0", ErrUsage, "-n 0: allowed is 1 to 9"},
		{"-n 10", ErrUsage, "-n 10: allowed is 1 to 9"},
		{"-n x", ErrUsage, `invalid value "x"`},
		{"-m", ErrUsage, "-m"},
		{"-n 3 more", ErrUsage, `unexpected argument "more"`},
	} {
		f := flag.NewFlagSet("show", flag.ContinueOnError)
		n := f.Int("n", 1, "`number`")
		err := Parse(f, strings.Fields(test.args), io.Discard, func() error { return Within("n", *n, 1, 9) })
		assert.ErrorIs(t, err, test.is, test.args)
		if test.says != "" {
			assert.ErrorContains(t, err, test.says)
		}
	}
}

func TestConsoleSaysWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c := NewConsole(&out)
		time.Sleep(1500 * time.Millisecond)
		c.Printf("broker %d is slow", 2)
		assert.Equal(t, "  1.5s  broker 2 is slow\n", out.String())
	})
}

func TestSpreadIsOfTheMeasured(t *testing.T) {
	assert.Equal(t, "none was measured", Spread(nil))
	var all []time.Duration
	for i := 101; i >= 1; i-- {
		all = append(all, time.Duration(i)*time.Millisecond)
	}
	assert.Equal(t, "p50 51ms   p99 100ms   max 101ms", Spread(all))
	assert.Equal(t, "p50 2µs   p99 2µs   max 2µs", Spread([]time.Duration{1999 * time.Nanosecond}))
}
