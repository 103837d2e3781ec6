package nats_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

const (
	// writerURL is set in the environment of a process that is a writer.
	writerURL  = "NATS_TEST_WRITER_URL"
	writerKey  = "a key"
	hintPrefix = "hints.writer"
)

// TestMain runs a writer, or the tests.
func TestMain(m *testing.M) {
	if url := os.Getenv(writerURL); url != "" {
		if err := commitAndHint(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	_ = flag.Set("test.parallel", "8")   // unless the command line says otherwise: the tests mostly wait
	natssignals.SetMaxKeys(4096)         // so that an overflow takes no more hints than that twice
	natssignals.SetPatience(time.Second) // a right that is lost is noticed only then
	// A server that is stopped while it makes a stream may leave two goroutines of that stream.
	const servers = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(watchdog.Over(m), goleak.IgnoreAnyFunction(servers+"/ats.Register.func1"), goleak.IgnoreAnyFunction(servers+".(*fileStore).flushStreamStateLoop"))
}

// commitAndHint commits a value, says so, waits for a line, and publishes the hint.
func commitAndHint(url string) error {
	ctx := context.Background()
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		return err
	}
	token, err := natssignals.Encode(writerKey)
	if err != nil {
		return err
	}
	revision, err := kv.Put(ctx, token, []byte("1"))
	if err != nil {
		return err
	}
	fmt.Println(revision)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if err := natssignals.Hint(nc, hintPrefix, writerKey, int64(revision)); err != nil {
		return err
	}
	return nc.Flush()
}

// startWriter starts a process that has committed when startWriter returns.
func startWriter(t *testing.T, b *broker) (writer *exec.Cmd, hint func()) {
	t.Helper()
	writer = exec.Command(os.Args[0])
	writer.Env = append(os.Environ(), writerURL+"="+b.running().ClientURL())
	writer.Stderr = os.Stderr
	in, err := writer.StdinPipe()
	require.NoError(t, err)
	out, err := writer.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, writer.Start())
	committed := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(out).ReadString('\n')
		committed <- err
	}()
	require.NoError(t, receive(t, committed, "the commit"))
	return writer, func() {
		_, err := in.Write([]byte("\n"))
		assert.NoError(t, err)
	}
}

// A put to a bucket is its hint; on core NATS change and hint are two steps.
func TestAWriterKilledBetweenItsCommitAndItsHint(t *testing.T) {
	t.Parallel()
	const audit = time.Second
	for name, c := range map[string]struct {
		killed bool
		bucket bool // the hints are those of the bucket
		audit  time.Duration
		heals  bool // by an audit
	}{
		"subjects, not killed":         {},
		"subjects, killed, with audit": {killed: true, audit: audit, heals: true},
		"a bucket, killed":             {killed: true, bucket: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t)
			e := b.bucketEngine()
			source := e.Source()
			if !c.bucket {
				var err error
				source, err = natssignals.Subjects(b.connect("subjects"), hintPrefix)
				require.NoError(t, err)
			}
			p, err := purgatory.New[string]("test")
			require.NoError(t, err)
			defer p.Close()
			r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(c.audit))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = r.Run(ctx, source) })
			defer running.Wait()
			defer cancel()
			for deadline := time.Now().Add(time.Minute); r.Stats().Rechecks == 0; time.Sleep(time.Millisecond) {
				require.True(t, time.Now().Before(deadline), "the source does not stand")
			}
			waits := make(chan struct{}, 1)
			answered := make(chan signals.Stats, 1)
			go func() {
				_, err := signals.AwaitRead(ctx, p, time.Hour, func(ctx context.Context) (int64, bool, error) {
					v, err := e.Read(ctx, writerKey)
					if v > 0 {
						answered <- r.Stats()
					}
					select {
					case waits <- struct{}{}:
					default:
					}
					return v, v > 0, err
				}, writerKey)
				assert.NoError(t, err)
			}()
			receive(t, waits, "the first read")
			before := r.Stats().Audits
			writer, hint := startWriter(t, b)
			if c.killed {
				require.NoError(t, writer.Process.Kill())
			} else {
				assert.Empty(t, answered)
				hint()
			}
			_ = writer.Wait()
			s := receive(t, answered, "the answer")
			if c.heals {
				assert.Zero(t, s.Hints)
				assert.Greater(t, s.Audits, before)
			} else {
				assert.Positive(t, s.Hints)
				assert.Zero(t, s.Audits)
			}
			t.Log(strconv.FormatInt(s.Audits-before, 10), "audits until the answer, one each", audit)
		})
	}
}
