package page

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// MaxURL is the longest identity of a document in bytes. Columns that a prefix and a URL name have
// at most 2048.
const MaxURL = 2000

// ErrURL is wrapped by the errors of Identity and NormalizeURL.
var ErrURL = errors.New("no URL of a document")

// Identity returns the identity of a document: its absolute http or https URL without fragment,
// with scheme and host in lower case. Nothing else is changed in a valid URL: not the port, not the
// path's dots, escapes and trailing slash, and not the order in the query.
//
// What RFC 3986 does not allow in a URL is first written as the clients that fetch pages write it:
// white space and control characters around it are dropped, other forbidden bytes and stray percent
// signs escaped, a host name outside of ASCII put in its IDNA form. An identity is its own
// identity.
func Identity(rawURL string) (string, error) {
	s := escape(rawURL)
	u, err := url.Parse(s)
	if err != nil {
		return "", urlError(err)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%w: neither http nor https", ErrURL)
	}
	if u.Hostname() == "" {
		return "", fmt.Errorf("%w: it has no host", ErrURL)
	}
	// The rest is done on the string, because URL.String may write an unchanged part in another
	// way.
	rest := s[len(u.Scheme)+len("://"):]
	tail := ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		rest, tail = rest[:i], rest[i:]
	}
	user, host := "", rest
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, host = rest[:i+1], rest[i+1:]
	}
	if host, err = lowerHost(host, u); err != nil {
		return "", err
	}
	id := u.Scheme + "://" + user + host + tail
	if len(id) > MaxURL {
		return "", fmt.Errorf("%w: %d bytes are more than %d", ErrURL, len(id), MaxURL)
	}
	return id, nil
}

// NormalizeURL resolves ref, an absolute or relative reference found in the document at base, by
// section 5 of RFC 3986 and returns the identity of the result. base is an absolute http or https
// URL.
func NormalizeURL(base *url.URL, ref string) (string, error) {
	ref = escape(ref)
	// An empty reference is the base itself, with its path (RFC 3986, section 5.2.2).
	if ref == "" {
		return Identity(base.String())
	}
	u, err := base.Parse(ref)
	if err != nil {
		return "", urlError(err)
	}
	return Identity(u.String())
}

// lowerHost returns host, which may end in a port, in lower case. u is the parsed URL that it
// stands in.
func lowerHost(host string, u *url.URL) (string, error) {
	if !strings.Contains(host, "%") || strings.HasPrefix(host, "[") {
		return strings.ToLower(host), nil
	}
	// Escapes in a name stand for bytes outside of ASCII (url.Parse allows no others).
	name, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrURL, err)
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		name += host[i:]
	}
	return name, nil
}

// escape writes a reference with the bytes that RFC 3986 allows, and without its fragment.
func escape(ref string) string {
	ref, _, _ = strings.Cut(ref, "#")
	ref = strings.TrimFunc(ref, func(r rune) bool { return r <= ' ' })
	var b strings.Builder
	for i := 0; i < len(ref); i++ {
		switch c := ref[i]; {
		case c == '\t' || c == '\n' || c == '\r': // line breaks inside an attribute
		case c == '%' && !(i+2 < len(ref) && isHex(ref[i+1]) && isHex(ref[i+2])):
			b.WriteString("%25")
		case c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// urlError drops the URL, which may be long, from what url.Parse says.
func urlError(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return fmt.Errorf("%w: %w", ErrURL, err)
}
