package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"github.com/gopercolator/percolator/internal/serve/origin"
)

// policy allows only what the pages are made of: no inline code, no other origin, no frame around
// it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// setSecurityHeaders sets what every answer carries.
func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // row keys stand in addresses
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
}

// guard decides which requests are served.
type guard struct {
	username, password [sha256.Size]byte // hashes, so that a comparison reveals no length
	basic              bool
}

// admit answers requests that are not allowed, and returns whether to serve the request.
func (g *guard) admit(w http.ResponseWriter, r *http.Request) bool {
	if origin.Foreign(r) && !linked(r) { // before the password, which no other site may try
		http.Error(w, "A page of another site may link to the console, and do nothing else.", http.StatusForbidden)
		return false
	}
	if g.basic {
		if g.knows(r) {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="percolator", charset="UTF-8"`)
		http.Error(w, "The console asks for a username and a password.", http.StatusUnauthorized)
		return false
	}
	if why := origin.NotLocal(r); why != "" {
		http.Error(w, why+" Without a password the console answers only on this machine: set Config.Username and Config.Password, "+
			"or --user and PERCOLATOR_UI_PASSWORD.", http.StatusForbidden)
		return false
	}
	return true
}

func (g *guard) knows(r *http.Request) bool {
	username, password, _ := r.BasicAuth()
	u, p := sha256.Sum256([]byte(username)), sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(u[:], g.username[:])&subtle.ConstantTimeCompare(p[:], g.password[:]) == 1
}

// linked tells whether a request follows a link, which other sites may have.
func linked(r *http.Request) bool {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	return safe && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
