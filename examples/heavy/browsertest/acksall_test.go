package browsertest

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/proof/built"
)

var address = regexp.MustCompile(`debug page: (http://\S+)`)

// TestThePageShowsARunningCluster builds acksall, runs it, and looks at it from outside.
func TestThePageShowsARunningCluster(t *testing.T) {
	b := open(t)
	program := filepath.Join(t.TempDir(), "acksall")
	build := slices.Concat([]string{"build"}, built.Flags(), []string{"-o", program, "github.com/delayedop/purgatory/examples/acksall"})
	out, err := exec.CommandContext(t.Context(), "go", build...).CombinedOutput()
	require.NoError(t, err, "%s", out)

	cluster := exec.CommandContext(t.Context(), program, "-debug-addr", "127.0.0.1:0", "-rate", "500", "-duration", "60s", "-slow-to", "30s")
	stdout, err := cluster.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cluster.Start())
	t.Cleanup(func() { _ = cluster.Process.Kill(); _ = cluster.Wait() })

	lines, url := bufio.NewScanner(stdout), ""
	for url == "" && lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			url = m[1]
		}
	}
	require.NotEmpty(t, url, "the program did not print the page's address")
	go func() {
		for lines.Scan() { // or the program would wait for somebody to read
			continue
		}
	}()

	b.do(t, chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS("section")))
	require.Eventually(t, func() bool {
		return b.eval(t, `document.querySelectorAll("section[id^=p-]").length`) == "6"
	}, 20*time.Second, 200*time.Millisecond, "three brokers, two purgatories each")
	b.requireMoves(t)
	require.Eventually(t, func() bool {
		return b.eval(t, `[...document.querySelectorAll("td.text")].some(c => c.textContent.startsWith("orders-"))`) == "true"
	}, 20*time.Second, 200*time.Millisecond)
	if *screenshots != "" {
		time.Sleep(8 * time.Second)
	}
	b.screenshot(t, "acksall", 1280, false)
	b.requireQuiet(t, url[:len(url)-len("/debug/purgatories")])
}
