package debug

import (
	"bytes"
	"crypto/rand"
	_ "embed" // the page's parts
	"html/template"
	"net/http"
	"strings"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	pageTemplate = template.Must(template.New("page").Parse(pageHTML))
)

// writeHTML writes the page with the view in it: the script takes it from there, and
// fetches the next ones as JSON from the same address. Nothing but this script and
// this style may run, and nothing may be fetched from elsewhere.
func writeHTML(w http.ResponseWriter, v View) {
	nonce := rand.Text()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Content-Security-Policy", strings.Join([]string{
		"default-src 'none'", "script-src 'nonce-" + nonce + "'", "style-src 'nonce-" + nonce + "'",
		"connect-src 'self'", "img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
	}, "; "))
	var text bytes.Buffer
	printView(&text, v)
	// Style and script are ours; everything else is escaped for where it stands.
	_ = pageTemplate.Execute(w, map[string]any{
		"Nonce": nonce, "CSS": template.CSS(pageCSS), "JS": template.JS(pageJS), "View": v, "Text": text.String(),
	})
}
