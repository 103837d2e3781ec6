// Package debug serves a page that shows what running purgatories hold, for the people
// who operate and develop a server: how many wait, for what, how long, whether they end
// because something happened or only because time ran out, whether the timer is on time,
// which key is hot, who is stuck.
//
//	page := debug.Handler(produces, fetches)
//	defer page.Close()
//	mux.Handle("/debug/purgatories", page)
//
// It registers nothing by itself, and does nothing until somebody looks. It is one
// address: HTML for a browser, JSON and plain text for who asks for them (by the Accept
// header, or ?format=json, ?format=text), so that curl prints the text.
//
// The page shows keys and operations, which may hold what clients have sent: mount it
// where only operators can reach it, or set Options.HideDetails. It fetches nothing from
// elsewhere; whatever is shown is data for its script, never markup.
//
// Histograms and keys are shown for purgatories that were made with
// purgatory.WithHistograms and purgatory.WithKeyStats. An operation describes itself if
// it is a fmt.Stringer.
package debug
