package debug

import (
	"encoding/json"
	"net/http"
)

func writeJSON(w http.ResponseWriter, v View) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}
