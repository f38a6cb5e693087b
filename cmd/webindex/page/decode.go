package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// Decode returns body, which is already free of transfer and content encodings, as valid UTF-8
// without byte order mark. Bytes that the charset has no meaning for become U+FFFD; nothing else is
// changed, line ends and white space included.
//
// The charset is the first of these that is stated and known: a byte order mark, the charset
// parameter of the Content-Type, a meta element in the first 1024 bytes, the encoding of an XML
// declaration. Failing all of them it is UTF-8 if the whole body is valid UTF-8, otherwise
// windows-1252.
func Decode(header http.Header, body []byte) []byte {
	e := bodyEncoding(header, body)
	if e == encoding.Nop { // which leaves everything as it is, and stands for UTF-8
		e = unicode.UTF8
	}
	decoded, err := e.NewDecoder().Bytes(body)
	if err != nil {
		// Decoders replace what they cannot read. Should one give up nevertheless, the bytes stand
		// for themselves.
		decoded = body
	}
	decoded = bytes.TrimPrefix(decoded, []byte("\ufeff"))
	return bytes.ToValidUTF8(decoded, []byte("\ufffd"))
}

// Cluster returns Page.Cluster without reading the whole page.
func Cluster(header http.Header, body []byte) string { return cluster(Decode(header, body)) }

// cluster returns the identity of a decoded document.
func cluster(decoded []byte) string {
	sum := sha256.Sum256(decoded)
	return hex.EncodeToString(sum[:])
}

// headerCharset finds the charset in a Content-Type, also where mime.ParseMediaType gives up on
// another parameter.
var headerCharset = regexp.MustCompile(`(?i);\s*charset\s*=\s*["']?([^\s"';,]+)`)

// xmlEncoding finds the encoding in an XML declaration at the start of a document.
var xmlEncoding = regexp.MustCompile(`^\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// undeclared is what charset.DetermineEncoding makes of a body that says nothing: any text in
// ASCII.
const undeclared = "windows-1252"

func bodyEncoding(header http.Header, body []byte) encoding.Encoding {
	contentType := ""
	if m := headerCharset.FindStringSubmatch(header.Get("Content-Type")); m != nil {
		contentType = "text/html; charset=" + m[1]
	}
	e, name, certain := charset.DetermineEncoding(body, contentType)
	if certain || name != undeclared || declares(body) {
		return e
	}
	if m := xmlEncoding.FindSubmatch(body[:min(len(body), 1024)]); m != nil {
		if e, _ := charset.Lookup(string(m[1])); e != nil {
			return e
		}
	}
	if utf8.Valid(body) {
		return unicode.UTF8
	}
	return e
}

// declares reports whether a meta element in body states a charset, given that body was taken for
// windows-1252. With a letter outside of ASCII before it, text that states nothing is taken for
// UTF-8 instead.
func declares(body []byte) bool {
	head := body[:min(len(body), 1024)]
	ascii := bytes.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return ' '
		}
		return r
	}, head)
	_, name, _ := charset.DetermineEncoding(append([]byte("é"), ascii...), "")
	return name == undeclared
}
