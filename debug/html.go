package debug

import (
	"bytes"
	"crypto/rand"
	_ "embed" // the page's parts
	"encoding/json"
	"html"
	"net/http"
	"strings"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed draw.js
	drawJS string
	//go:embed page.js
	pageJS string
)

// writeHTML writes the page with the view in it: the script takes it from there, and
// fetches the next ones as JSON from the same address. Nothing but this script and
// this style may run, and nothing may be fetched from elsewhere.
//
// The page is put together from five parts, and html/template, which would add 3.6 MB to a
// program, is not needed to do it safely. Style and scripts are files of this package, and
// the nonce is letters and digits. The view is JSON, in which [json.Marshal] escapes <, >, &, U+2028 and
// U+2029, so that no string in it can end the script. The text is escaped as text.
func writeHTML(w http.ResponseWriter, v View) {
	view, ok := encoded(w, v)
	if !ok {
		return
	}
	nonce := rand.Text()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Content-Security-Policy", strings.Join([]string{
		"default-src 'none'", "script-src 'nonce-" + nonce + "'", "style-src 'nonce-" + nonce + "'",
		"connect-src 'self'", "img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
	}, "; "))
	var text bytes.Buffer
	printView(&text, v)
	// A replacer looks at its input once: what it has put in is not looked at.
	_, _ = strings.NewReplacer(
		"{{nonce}}", nonce, "{{style}}", pageCSS, "{{script}}", drawJS+pageJS,
		"{{view}}", string(view), "{{text}}", html.EscapeString(text.String()),
	).WriteString(w, pageHTML)
}

func writeJSON(w http.ResponseWriter, v View) {
	view, ok := encoded(w, v)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(view, '\n')) // an error: the client has gone
}

// encoded returns v as JSON. If a source has returned what JSON cannot hold, such as NaN, it answers the request with the error.
func encoded(w http.ResponseWriter, v View) (view []byte, ok bool) {
	view, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
	return view, err == nil
}
