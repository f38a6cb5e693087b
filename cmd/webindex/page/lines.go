package page

import (
	"iter"
	"net/http"
	"strings"
)

// Lines yields the text of a document without title, scripts and style sheets, as Page.Text has it,
// but divided where its elements divide it, up to MaxText bytes. body is free of transfer and
// content encodings.
func Lines(header http.Header, body []byte) iter.Seq[string] {
	c := collector{title: foldedText{max: MaxTitle}, text: foldedText{max: MaxText, lines: true}}
	c.read(Decode(header, body))
	return strings.SplitSeq(c.text.String(), "\n")
}
