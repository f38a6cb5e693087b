package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// rowOf is the inspector's page for a row, with further parameters.
func rowOf(table, row string, more ...string) string {
	q := url.Values{"table": {table}, "row": {row}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return "/row?" + q.Encode()
}

// A row shows versions, locks with their primaries, and what a reader finds; keys of any bytes can
// be asked for and are shown harmlessly.
func TestRowShowsVersionsAndLocks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	h := c.handler()
	const odd = "<b>\x00&\"'é\n"
	c.set("first", document(odd, "contents"))
	c.set("the second", document(odd, "contents"))
	c.strand(time.Hour, percolator.Cell{Table: "words", Row: "primary", Column: "p"}, document(odd, "title"))
	body := get(t, h, rowOf("documents", text.Shown(odd)))
	for _, want := range []string{
		"observed", "5 bytes", "10 bytes", "a reader finds a value of 10 bytes", "notified", "alive", "a reader waits for the lock",
		`row?row=primary&amp;table=words`, "not committed", `&lt;b&gt;\x00&amp;`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q:\n%s", want, body)
		}
	}
	if strings.Contains(body, "<b>\x00") {
		t.Error("a row key is markup")
	}
	if got := strings.Count(body, `<tr class="read">`); got != 2 {
		t.Errorf("%d versions are marked as what a reader uses, want a record and its data", got)
	}
	if got := strings.Count(body, ">put<"); got != 2 {
		t.Errorf("%d records are shown, want 2", got)
	}
	if body := get(t, h, rowOf("documents", "nobody")); !strings.Contains(body, "Nothing is stored in this row") {
		t.Errorf("an empty row shows\n%s", body)
	}
}

// Values leave the store only where the configuration allows it, and only when they are asked for.
func TestValuesAreHidden(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.set("a secret", document("r", "contents"))
	for _, test := range []struct{ allowed, asked, want bool }{{false, true, false}, {true, false, false}, {true, true, true}} {
		h := c.handler(func(cfg *Config) { cfg.ShowValues = test.allowed })
		path := rowOf("documents", "r")
		if test.asked {
			path = rowOf("documents", "r", "values", "1")
		}
		if got := strings.Contains(get(t, h, path), "a secret"); got != test.want {
			t.Errorf("allowed %v, asked %v: shown %v", test.allowed, test.asked, got)
		}
	}
}

func TestRowThatCannotBeShown(t *testing.T) {
	t.Parallel()
	h := newCluster(t, 1).handler()
	for path, want := range map[string]int{
		rowOf("none", "r"):                                      http.StatusNotFound,
		rowOf("none", "", "browse", "1"):                        http.StatusNotFound,
		rowOf("documents", `"open`, "browse", "1"):              http.StatusBadRequest,
		rowOf("documents", `"open`):                             http.StatusBadRequest,
		rowOf("documents", "r", "asof", "yesterday"):            http.StatusBadRequest,
		rowOf("documents", "r", "asof", "2999-01-01T00:00:00Z"): http.StatusBadRequest,
		rowOf("documents", strings.Repeat("x", 5000)):           http.StatusBadRequest,
	} {
		w := serve(h, local(http.MethodGet, path, nil))
		if w.Code != want || !strings.Contains(w.Body.String(), `role="alert"`) {
			t.Errorf("%.80s: %d, want %d\n%s", path, w.Code, want, w.Body)
		}
	}
}

func TestAsOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]tso.Timestamp{
		"": 0, "123456789012345": 123456789012345, "2026-03-01T11:00:00Z": tso.At(now.Add(-time.Hour)), "90s": tso.At(now.Add(-90 * time.Second)),
	} {
		if got, err := parseAsOf(text, now); got != want || err != nil {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"-1", "0x10", "-5m", "noon", "2026-03-01T11:00:00+24:60"} {
		if got, err := parseAsOf(text, now); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestShownAndBack(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"plain", "", `"quoted"`, "a b", "\x00ack\x00index\x00c", "é", "\xff", "<script>", "\u202e"} {
		if got, err := text.FromShown(text.Shown(key)); got != key || err != nil {
			t.Errorf("%q is shown as %s, which is %q (%v)", key, text.Shown(key), got, err)
		}
	}
}

// Values are shown by the types of their columns, and what is not of its type with what is wrong.
func TestTypedValues(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.set("100", document("r", "title"))
	schema := &percolator.Schema{Tables: append([]percolator.Table{{
		Name: "stock", Columns: []percolator.ColumnSchema{{Name: "onhand", Type: percolator.TypeInt64}, {Name: "since", Type: percolator.TypeTime}, {Name: "picture"}},
	}}, testSchema.Tables...)}
	schema.Tables[1].Columns = []percolator.ColumnSchema{{Name: "contents"}, {Name: "recount"}, {Name: "title", Type: percolator.TypeInt64}}
	if err := percolator.CreateSchema(testContext(t), c.env.Project, c.env.Instance, schema, c.env.Options()...); err != nil {
		t.Fatal(err)
	}
	c.client = c.env.NewClient(c.ownOracle()) // knows the new schema
	stock := func(column string) percolator.Cell {
		return percolator.Cell{Table: "stock", Row: "r", Column: column}
	}
	c.set("\x00\x00\x00\x00\x00\x00\x00\x7b", stock("onhand"))
	c.set("\x80\x00\x00\x00\x00\x00\x00\x00", stock("since"))
	c.set("<pixels>", stock("picture"))
	h := c.handler(func(cfg *Config) { cfg.ShowValues = true })
	for path, want := range map[string][]string{
		rowOf("stock", "r", "values", "1"):     {"<pre>123</pre>", "<pre>1970-01-01T00:00:00Z</pre>", "<pre>&lt;pixels&gt;</pre>", `<span class="tag">int64</span>`},
		rowOf("documents", "r", "values", "1"): {"<pre>&#34;100&#34; (3 bytes are not an int64)</pre>"},
		rowOf("stock", "r"):                    {`<span class="tag">time</span>`},
	} {
		body := get(t, h, path)
		for _, part := range want {
			if !strings.Contains(body, part) {
				t.Errorf("%s lacks %s:\n%s", path, part, body)
			}
		}
		if strings.Contains(body, `<span class="tag">bytes</span>`) {
			t.Errorf("%s shows the type of what has none", path)
		}
	}
}
