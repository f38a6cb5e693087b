package schemafile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/schemafile"
)

func TestFileDescribesAWholeSchema(t *testing.T) {
	t.Parallel()
	text := `---
# all of it
tables:
  - name: documents
    observed: [contents, "a b", "y", "on", "7", "~"]
    weak: ['"\xff"']
    indexes:
      - {name: by-url, column: url, unique: true}
    splits: [g, '"\x00"']
  - {name: links}
timing: {requestLifetime: 10s, metaMaxAge: 20s}
name: shop
disableJournal: true
`
	got, err := schemafile.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := &percolator.Schema{
		Tables: []percolator.Table{
			{Name: "documents", Observed: []string{"contents", "a b", "y", "on", "7", "~"}, Weak: []string{"\xff"}, Splits: []string{"g", "\x00"},
				Indexes: []percolator.Index{{Name: "by-url", Column: "url", Unique: true}}},
			{Name: "links"},
		},
		Timing: percolator.Timing{RequestLifetime: 10 * time.Second, MetaMaxAge: 20 * time.Second},
		Name:   "shop", DisableJournal: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	for _, write := range []func(*percolator.Schema) ([]byte, error){schemafile.YAML, schemafile.JSON} {
		written, err := write(want)
		if err != nil {
			t.Fatal(err)
		}
		again, err := schemafile.Parse(written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if diff := cmp.Diff(want, again); diff != "" {
			t.Errorf("written and read again: %s", diff)
		}
	}
}

// A second document would be dropped without a word.
func TestFileIsOneDocument(t *testing.T) {
	t.Parallel()
	const first = "tables: [{name: t}]\n"
	for _, more := range []string{"--- # second\ntables: [{name: u}]\n", "--- {tables: [{name: u}]}\n", "...\ntables: [{name: u}]\n", "...\nrubbish\n", "---\n"} {
		if s, err := schemafile.Parse([]byte(first + more)); err == nil {
			t.Errorf("%q accepted as %v", more, s.Tables)
		}
	}
	for _, text := range []string{"---\n" + first, "# a comment\n--- # one\n" + first, first + "...\n# the end\n"} {
		if _, err := schemafile.Parse([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFileIsAMapping(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"tables\n": "the file is a string, want a mapping", "tables: t\n": "tables is a string, want a "} {
		if _, err := schemafile.Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The columns of a queue are one line of a file, whatever a program's own columns are called.
func TestFileHasAQueueAsOneLine(t *testing.T) {
	t.Parallel()
	parts := []string{"fold-000", "fold-001", "fold-002"}
	s := &percolator.Schema{Tables: []percolator.Table{
		{Name: "sums", Weak: parts},
		{Name: "prices", Weak: []string{"price-100", "price-101"}},
		{Name: "both", Weak: append([]string{"again"}, parts...)},
		{Name: "bytes", Weak: []string{"\xff-000", "\xff-001"}},
	}}
	text, err := schemafile.YAML(s)
	if err != nil {
		t.Fatal(err)
	}
	const want = `tables:
- name: sums
  queue: {column: fold, parts: 3}
- name: prices
  weak: [price-100, price-101]
- name: both
  weak: [again, fold-000, fold-001, fold-002]
- name: bytes
  queue: {column: '"\xff"', parts: 2}
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	again, err := schemafile.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, again); diff != "" {
		t.Error(diff)
	}
	beside, err := schemafile.Parse([]byte("tables: [{name: t, weak: [a], queue: {column: fold, parts: 2}}]"))
	if err != nil || cmp.Diff([]string{"a", "fold-000", "fold-001"}, beside.Tables[0].Weak) != "" {
		t.Errorf("%v, %v", beside, err)
	}
	for _, wrong := range []string{"{column: fold}", "{parts: 1}", "{column: fold, parts: 1025}", "{column: fold, parts: many}", "{column: fold, parts: 2, more: 1}"} {
		if _, err := schemafile.Parse([]byte("tables: [{name: t, queue: " + wrong + "}]")); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
