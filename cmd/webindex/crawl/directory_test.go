package crawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadDirectory(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{
		"index.html": "top", "b/Two.HTM": "two", "b/a/three.html": "three", "c (1)%.html": "odd", "ü/?#.html": "odder",
		"b/picture.png": "no", "html": "no", "b/page.html.gz": "no", "empty.html": "",
	})
	in, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if in.Total() != int64(len("top"+"two"+"three"+"odd"+"odder")) || in.Name() != dir {
		t.Errorf("%s of %d bytes", in.Name(), in.Total())
	}
	var got []string
	for resp, err := range in.Responses(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		relative, err := filepath.Rel(dir, resp.Source)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d %s %q %q", resp.URL, resp.Status, resp.Header.Get("Content-Type"), relative, resp.Body))
	}
	want := []string{
		`http://localhost/b/Two.HTM 200 text/html "b/Two.HTM" "two"`,
		`http://localhost/b/a/three.html 200 text/html "b/a/three.html" "three"`,
		`http://localhost/c%20(1)%25.html 200 text/html "c (1)%.html" "odd"`,
		`http://localhost/empty.html 200 text/html "empty.html" ""`,
		`http://localhost/index.html 200 text/html "index.html" "top"`,
		`http://localhost/%C3%BC/%3F%23.html 200 text/html "ü/?#.html" "odder"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if in.Offset() != in.Total() {
		t.Errorf("%d of %d at the end", in.Offset(), in.Total())
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadDirectoryGoesOnBehindUnreadableFiles(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{"a.html": "a", "gone.html": "b", "z.html": "z"})
	big := filepath.Join(dir, "big.html")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, MaxPage+1); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"broken.html": "nowhere", "link.html": "a.html", "loop": ".", "dir.html": "."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	in, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "gone.html")); err != nil {
		t.Fatal(err)
	}
	responses, errs := read(in.Responses(t.Context()))
	var urls []string
	for _, r := range responses {
		urls = append(urls, strings.TrimPrefix(r.URL, DirectoryBase))
	}
	if got := strings.Join(urls, " "); got != "a.html link.html z.html" {
		t.Errorf("read %s", got)
	}
	if len(errs) != 3 {
		t.Fatalf("errors %v", errs)
	}
	for i, name := range []string{"broken.html", "gone.html"} {
		var ie *InputError
		if err := errs[2*i]; !errors.As(err, &ie) || ie.Path != filepath.Join(dir, name) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var skipped *SkippedError
	want := SkippedError{URL: DirectoryBase + "big.html", Status: 200, ContentType: "text/html", Size: MaxPage + 1, Source: big}
	if !errors.As(errs[1], &skipped) || *skipped != want {
		t.Errorf("big.html: %v", errs[1])
	}
}

func TestReadDirectoryBehindALink(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{"site/a.html": "a"})
	link := filepath.Join(dir, "link")
	if err := os.Symlink("site", link); err != nil {
		t.Fatal(err)
	}
	responses, errs := read(Read(t.Context(), link))
	if len(errs) > 0 || len(responses) != 1 || responses[0].URL != DirectoryBase+"a.html" {
		t.Errorf("%d responses, errors %v", len(responses), errs)
	}
}

func TestReadDirectoryWithoutHTML(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{"notes.txt": "no"})
	_, errs := read(Read(t.Context(), dir))
	var ie *InputError
	if len(errs) != 1 || !errors.Is(errs[0], ErrNoHTML) || !errors.As(errs[0], &ie) || ie.Path != dir {
		t.Errorf("errors %v", errs)
	}
}

func TestReadDirectoryEnds(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{"a.html": "a", "b.html": "b"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for resp, err := range Read(ctx, dir) {
		if last = err; resp != nil {
			n++
		}
		cancel()
	}
	if n != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d responses, then %v", n, last)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "0.html")); err != nil {
		t.Fatal(err)
	}
	for range Read(t.Context(), dir) { // stops at the error
		break
	}
	if err := os.Remove(filepath.Join(dir, "0.html")); err != nil {
		t.Fatal(err)
	}
	for range Read(t.Context(), dir) { // stops at a page
		break
	}
}
