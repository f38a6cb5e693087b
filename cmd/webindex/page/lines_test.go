package page

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestLinesAreBlocksWithoutMarkup(t *testing.T) {
	t.Parallel()
	header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	body := `<title>Title</title><script>alert(1)</script><h1>A <b>bold</b>
		head</h1><p>One<br>two &lt;three&gt;</p><ul><li>a<li> b </ul>`
	got := slices.Collect(Lines(header, []byte(body)))
	if want := []string{"A bold head", "One", "two <three>", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	long := strings.Repeat("<p>word</p>", MaxText)
	size := 0
	for line := range Lines(header, []byte(long)) {
		size += len(line) + 1
	}
	if size > MaxText+1 || size < MaxText-10 {
		t.Errorf("%d bytes of a long document", size)
	}
}
