package debug

import (
	"encoding/json"
	"net/http"
)

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
