package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
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
	crossOrigin        *http.CrossOriginProtection
}

// admit answers requests that are not allowed, and returns whether to serve the request.
func (g *guard) admit(w http.ResponseWriter, r *http.Request) bool {
	if g.foreign(r) && !linked(r) { // before the password, which no other site may try
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
	if why := notLocal(r); why != "" {
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

// proxyHeaders are set by proxies, which turn all requests into ones from loopback.
var proxyHeaders = []string{
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Server", "X-Real-Ip", "X-Client-Ip",
	"True-Client-Ip", "Cf-Connecting-Ip", "X-Envoy-External-Address", "X-Original-Forwarded-For", "Via",
}

// notLocal says why a request is not from this machine; "" if it is. It checks the host because a
// page from elsewhere can make its own name resolve to 127.0.0.1, and the browser then takes the
// console for a part of that page.
func notLocal(r *http.Request) string {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !addr.Addr().Unmap().IsLoopback() {
		return "This request does not come from a loopback address."
	}
	// No browser sends HTTP/1.0, but nginx does by default.
	if !r.ProtoAtLeast(1, 1) {
		return "This request is not one of a browser's."
	}
	if !loopbackName(r.Host) {
		return "This request names a host that is not a loopback address."
	}
	for _, name := range proxyHeaders {
		// Even an empty first line marks a proxy: it may be the client's, with the proxy's behind
		// it.
		if _, marked := r.Header[name]; marked {
			return "This request came through a proxy."
		}
	}
	return ""
}

// loopbackName tells whether a Host header names this machine by itself.
func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// foreign tells whether a page of another site sent a request, of whatever method. Browsers say so
// but for old ones, and where the console has neither TLS nor a loopback address.
func (g *guard) foreign(r *http.Request) bool {
	// Check passes every GET, so check as for a POST.
	return g.crossOrigin.Check(&http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host}) != nil
}

// linked tells whether a request follows a link, which other sites may have.
func linked(r *http.Request) bool {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	return safe && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// ownForm tells whether a request that changes something comes from the console's own pages, if it
// is not foreign. Every browser sends at least one of the two headers with a form; what sends
// neither is refused as well.
func ownForm(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	return site == "same-origin" || site == "" && origin != ""
}
