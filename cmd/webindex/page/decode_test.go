package page

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

func htmlHeader(contentType string) http.Header {
	return http.Header{"Content-Type": {contentType}}
}

func TestDecodeFindsTheCharset(t *testing.T) {
	t.Parallel()
	const japaneseText = "<title>灯台の光</title>"
	sjis, err := japanese.ShiftJIS.NewEncoder().String(japaneseText)
	if err != nil {
		t.Fatal(err)
	}
	jis, err := japanese.ISO2022JP.NewEncoder().String(japaneseText)
	if err != nil {
		t.Fatal(err)
	}
	utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String("<p>naïve")
	if err != nil {
		t.Fatal(err)
	}
	ascii := strings.Repeat("<p>plain text</p>\n", 100) // longer than what is looked at for a declaration
	for name, c := range map[string]struct{ contentType, body, want string }{
		"header":                        {"text/html; charset=ISO-8859-1", "caf\xe9", "café"},
		"header quoted":                 {`text/html; charset="iso-8859-1"`, "caf\xe9", "café"},
		"header with another parameter": {"text/html; x=; charset=latin1; y", "caf\xe9", "café"},
		"header before meta":            {"text/html; charset=utf-8", "<meta charset=latin1>café", "<meta charset=latin1>café"},
		"unknown in header":             {"text/html; charset=klingon", "<meta charset=shift_jis>" + sjis, "<meta charset=shift_jis>" + japaneseText},
		"meta":                          {"text/html", "<meta charset=Shift_JIS>" + sjis, "<meta charset=Shift_JIS>" + japaneseText},
		"meta in seven bits":            {"text/html", "<meta charset=iso-2022-jp>" + jis, "<meta charset=iso-2022-jp>" + japaneseText},
		"meta http-equiv": {"text/html", `<meta http-equiv=Content-Type content="text/html; charset=windows-1252">` + "\x93x\x94",
			`<meta http-equiv=Content-Type content="text/html; charset=windows-1252">“x”`},
		"meta for what looks like UTF-8": {"text/html", "<meta charset=windows-1252>" + "\xc3\xa9", "<meta charset=windows-1252>Ã©"},
		"byte order mark":                {"text/html; charset=latin1", "\xef\xbb\xbfcafé", "café"},
		"UTF-16":                         {"text/html", utf16, "<p>naïve"},
		"XML declaration":                {"application/xhtml+xml", `<?xml version="1.0" encoding="iso-8859-2"?>` + "\xb3", `<?xml version="1.0" encoding="iso-8859-2"?>ł`},
		"nothing, UTF-8":                 {"text/html", "café", "café"},
		"nothing, UTF-8 far down":        {"text/html", ascii + "café", ascii + "café"},
		"nothing, not UTF-8":             {"", "caf\xe9 \x80", "café €"},
		"damaged UTF-8":                  {"text/html; charset=utf-8", "a\xffb\xe9", "a\ufffdb\ufffd"},
		"line ends":                      {"", " a\r\n\tb ", " a\r\n\tb "},
		"empty":                          {"text/html; charset=shift_jis", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(Decode(htmlHeader(c.contentType), []byte(c.body))); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestClusterIsOfTheDecodedBody(t *testing.T) {
	t.Parallel()
	latin := cluster(Decode(htmlHeader("text/html; charset=iso-8859-1"), []byte("caf\xe9")))
	utf := cluster(Decode(htmlHeader("text/html; charset=utf-8"), []byte("café")))
	// printf 'café' | sha256sum
	const want = "850f7dc43910ff890f8879c0ed26fe697c93a067ad93a7d50f466a7028a9bf4e"
	if latin != want || utf != want {
		t.Errorf("clusters %s and %s, want %s", latin, utf, want)
	}
	if other := cluster(Decode(nil, []byte("café "))); other == want {
		t.Error("another body has the same cluster")
	}
}

func TestDecodeLeavesTheBodyAlone(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"text/html; charset=iso-8859-1", "text/html; charset=utf-8", ""} {
		body := []byte("<META CHARSET=UTF-8>caf\xe9")
		before := bytes.Clone(body)
		Decode(htmlHeader(contentType), body)
		if !bytes.Equal(body, before) {
			t.Errorf("%q: the body has changed to %q", contentType, body)
		}
	}
}
