package page

import (
	"net/http"
	"net/url"
	"strings"
)

// IsHTML reports whether the header's Content-Type is an HTML type: text/html or
// application/xhtml+xml.
func IsHTML(header http.Header) bool {
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "text/html" || media == "application/xhtml+xml"
}

// IsDocument reports whether a response is a document: status 200 and an HTML type.
func IsDocument(status int, header http.Header) bool {
	return status == http.StatusOK && IsHTML(header)
}

// RedirectTarget returns the identity of the URL that a response forwards to: status 301, 302, 303,
// 307 or 308 with a Location, resolved against docURL. It is false for every other response, and
// for a Location that is no http or https URL or leads back to docURL itself.
func RedirectTarget(docURL string, status int, header http.Header) (string, bool) {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return "", false
	}
	location := header.Get("Location")
	self, base, err := documentURL(docURL)
	if err != nil || location == "" {
		return "", false
	}
	target := linkTarget(base, location, self)
	return target, target != ""
}

// documentURL returns the identity of docURL, also parsed.
func documentURL(docURL string) (string, *url.URL, error) {
	id, err := Identity(docURL)
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(id)
	if err != nil {
		return "", nil, urlError(err)
	}
	return id, u, nil
}
