// Package origin tells where a request comes from: whether from this machine, and from whose page.
// It keeps pages of other sites from acting for a reader.
package origin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// proxyHeaders are set by proxies, which turn all requests into ones from loopback.
var proxyHeaders = []string{
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Server", "X-Real-Ip", "X-Client-Ip",
	"True-Client-Ip", "Cf-Connecting-Ip", "X-Envoy-External-Address", "X-Original-Forwarded-For", "Via",
}

// NotLocal says why a request is not from this machine; "" if it is. It checks the host because a
// page from elsewhere can make its own name resolve to 127.0.0.1, and the browser then takes the
// server for a part of that page.
func NotLocal(r *http.Request) string {
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

var crossOrigin = http.NewCrossOriginProtection()

// Foreign tells whether a page of another site sent a request, of whatever method. Browsers say so
// but for old ones, and where the server has neither TLS nor a loopback address.
func Foreign(r *http.Request) bool {
	// Check passes every GET, so check as for a POST.
	return crossOrigin.Check(&http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host}) != nil
}

// OwnForm tells whether a request that changes something comes from one of the server's own pages.
// Every browser sends at least one of the two headers with a form; what sends neither is refused as
// well.
func OwnForm(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	return !Foreign(r) && (site == "same-origin" || site == "" && origin != "")
}
