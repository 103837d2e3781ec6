package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/plugin/prometheus"
)

// server is a Prometheus server that scrapes native histograms.
type server struct {
	address string
	log     *bytes.Buffer // to be read when it has ended
	ended   chan struct{}
}

// serve starts a server that scrapes target once a second, on a free port. The port is free a moment before: if another
// program was faster, the server ends, and serve tries another.
func serve(t *testing.T, target string) *server {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("SKIPPED: there is no prometheus here, so no server reads the native histograms (apt-get install prometheus)")
	}
	about, err := exec.CommandContext(t.Context(), binary, "--version").CombinedOutput()
	require.NoError(t, err)
	var major, minor int
	_, err = fmt.Sscanf(string(about), "prometheus, version %d.%d", &major, &minor)
	require.NoError(t, err, "%s", about)
	if major < 2 || major == 2 && minor < 40 {
		t.Skipf("SKIPPED: prometheus %d.%d does not know native histograms, 2.40 does", major, minor)
	}
	folder := t.TempDir()
	where, err := url.Parse(target)
	require.NoError(t, err)
	config := fmt.Sprintf("scrape_configs: [{job_name: example, scrape_interval: 1s, static_configs: [{targets: ['%s']}]}]\n", where.Host)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "prometheus.yml"), []byte(config), 0o600))
	for range 5 {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		s := &server{address: free.Addr().String(), log: new(bytes.Buffer), ended: make(chan struct{})}
		free.Close()
		process := exec.CommandContext(t.Context(), binary, "--config.file="+filepath.Join(folder, "prometheus.yml"),
			"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+s.address, "--enable-feature=native-histograms")
		process.Stdout, process.Stderr = s.log, s.log
		require.NoError(t, process.Start())
		go func() {
			defer close(s.ended)
			_ = process.Wait() // it is killed
		}()
		t.Cleanup(func() {
			_ = process.Process.Kill()
			<-s.ended
			if t.Failed() {
				t.Logf("%s", s.log)
			}
		})
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if _, ready := s.value("vector(1)"); ready {
				return s
			}
			if s.hasEnded() || time.Now().After(end) {
				break
			}
		}
	}
	t.Fatal("the server does not answer")
	return nil
}

func (s *server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// value asks for a number, and reports whether there is exactly one.
func (s *server) value(query string) (v float64, known bool) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + s.address + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Data.Result) != 1 {
		return 0, false
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	v, err = strconv.ParseFloat(text, 64)
	return v, err == nil
}

// until waits until the answer to a query is as wanted, and returns it.
func (s *server) until(t *testing.T, query string, wanted func(v float64) bool) float64 {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		v, known := s.value(query)
		if known && wanted(v) {
			return v
		}
		require.True(t, time.Now().Before(end), "%s is %v (%v)", query, v, known)
	}
}

// TestAServerReadsTheNativeHistograms has a real Prometheus scrape the example, and asks it for quantiles. The polls that
// expire have a timeout of 200 ms: none waits for less, and the fastest lie in the bucket from 0.125 s to 0.25 s.
func TestAServerReadsTheNativeHistograms(t *testing.T) {
	metrics, _ := start(t, prometheus.Options{NativeHistograms: true})
	s := serve(t, metrics)
	const expired = `purgatory_wait_seconds{outcome="expired"}`
	s.until(t, "histogram_count("+expired+")", func(n float64) bool { return n > 20 })
	fastest := s.until(t, "histogram_quantile(0.001, "+expired+")", func(v float64) bool { return v <= 0.25 })
	assert.GreaterOrEqual(t, fastest, 0.125)
	mean := s.until(t, "histogram_sum("+expired+") / histogram_count("+expired+")", func(v float64) bool { return v > 0 })
	assert.GreaterOrEqual(t, mean, 0.2)
	s.until(t, `histogram_quantile(0.5, rate(purgatory_wait_seconds{outcome="satisfied"}[1m]))`, func(v float64) bool { return v > 0 })

	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	series := s.until(t, `count({__name__=~"purgatory_.+"})`, func(float64) bool { return true })
	assert.Contains(t, strings.ReplaceAll(string(text), "\n", " "), fmt.Sprintf(", %v where the server scrapes native histograms", series))
}
