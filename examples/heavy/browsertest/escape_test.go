package browsertest

import (
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/purgatory"
)

// What a client may send, and what a reader sees of it.
var sent = []struct{ text, seen string }{
	{`</script><script>window.hacked = 1</script>`, ""},
	{`<!--<script>`, ""},
	{`]]></style><img src=x onerror="window.hacked = 1">`, ""},
	{`'"; window.hacked = 1; //`, ""},
	{"`${window.hacked = 1}`", ""},
	{`{{script}} {{view}} {{text}}`, ""},
	{`&lt;b&gt; &amp;`, ""},
	{"a\u2028b\u2029c", `a\u2028b\u2029c`},
	{"user\u202egpj.exe", `user\u202egpj.exe`},
	{"\u2066x\u2069 \u200fy\u200e", `\u2066x\u2069 \u200fy\u200e`},
	{"red\x1b[31m\x00\x7f\u0085", `red\x1b[31m\x00\x7f\x85`},
	{"two\nlines\tand\u00a0space\ufeff", `two\nlines\tand\xa0space\ufeff`},
	{"zero\u200bwidth \U000e0041", `zero\u200bwidth \U000e0041`},
	{"שלום, мир, 世界 ok", ""},
}

// TestWhatClientsSendIsSeenAndNotObeyed: keys and the purgatory's name are whatever clients like to send.
func TestWhatClientsSendIsSeenAndNotObeyed(t *testing.T) {
	page, err := debug.NewWithOptions(debug.Options{Rows: 100})
	require.NoError(t, err)
	t.Cleanup(page.Close)
	for i, s := range sent {
		p := newPurgatory(t, s.text, purgatory.WithoutReaper()) // one that stalls on a busy machine would come first
		_, err := p.TryCompleteElseWatch(&request{offset: 1, end: new(atomic.Int64)}, time.Hour, s.text)
		require.NoError(t, err, i)
		require.NoError(t, page.Add(p))
	}
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	b := open(t)
	b.do(t, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL), chromedp.WaitVisible(chromedp.CSS("section")))
	for range 2 { // as it came with the page, and as it came afterwards
		for i, s := range sent {
			if s.seen == "" {
				s.seen = s.text
			}
			in := fmt.Sprintf("document.querySelectorAll('section[id^=p-]')[%d].", i)
			assert.Equal(t, s.seen, b.eval(t, in+"querySelector('h2').textContent"), "name")
			assert.Equal(t, s.seen, b.eval(t, in+"querySelector('td.text').textContent"), "key")
			assert.Equal(t, s.seen, b.eval(t, fmt.Sprintf("document.querySelectorAll('#overview tbody a')[%d].textContent", i)), "overview")
		}
		assert.Equal(t, "undefined", b.eval(t, "window.hacked"))
		assert.Equal(t, "1", b.eval(t, "document.scripts.length"))
		assert.Equal(t, "0", b.eval(t, "document.images.length"))
		b.eval(t, "window.before = document.getElementById('time').textContent")
		require.Eventually(t, func() bool {
			return b.eval(t, "window.before !== document.getElementById('time').textContent") == "true"
		}, 20*time.Second, 200*time.Millisecond)
	}
	b.screenshot(t, "escape-1280", 1280, false)
	b.requireQuiet(t, server.URL)
}
