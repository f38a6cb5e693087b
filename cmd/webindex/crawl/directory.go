package crawl

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// htmlFile is a page in a directory.
type htmlFile struct {
	path string
	url  string
	size int64
}

// openDirectory lists the HTML files in and below dir. What cannot be listed is kept for Responses
// to report.
func openDirectory(dir string) (*Input, error) {
	in := &Input{name: dir}
	// WalkDir follows no links, not even dir itself.
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, &InputError{Path: dir, Err: withoutPath(err)}
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			in.bad = append(in.bad, &InputError{Path: path, Err: withoutPath(err)})
			return nil
		}
		if entry.IsDir() || !isHTMLName(path) {
			return nil
		}
		if len(in.files) == MaxFiles {
			return fmt.Errorf("more than %d HTML files", MaxFiles)
		}
		return in.list(root, path)
	})
	if err != nil {
		return nil, &InputError{Path: dir, Err: err}
	}
	if len(in.files)+len(in.bad) == 0 {
		return nil, &InputError{Path: dir, Err: ErrNoHTML}
	}
	return in, nil
}

// list adds the file at path, following a symbolic link, to those of the directory.
func (in *Input) list(dir, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		in.bad = append(in.bad, &InputError{Path: path, Err: withoutPath(err)})
		return nil
	case info.IsDir(): // behind a link, which could lead back up
		return nil
	case !info.Mode().IsRegular():
		in.bad = append(in.bad, &InputError{Path: path, Err: ErrNotRegular})
		return nil
	}
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	in.files = append(in.files, htmlFile{
		path: path,
		url:  DirectoryBase + escapePath(filepath.ToSlash(relative)),
		size: info.Size(),
	})
	in.total += info.Size()
	return nil
}

func isHTMLName(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".html" || ext == ".htm"
}

// escapePath writes a path with the bytes that a URL's path may have (RFC 3986, section 3.3), so
// that it is the URL that a link to the file resolves to.
func escapePath(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@/", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func (in *Input) directoryResponses(ctx context.Context) iter.Seq2[*Response, error] {
	return func(yield func(*Response, error) bool) {
		for _, err := range in.bad {
			if !yield(nil, err) {
				return
			}
		}
		done := int64(0)
		for _, file := range in.files {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			resp, err := file.read()
			done += file.size
			in.advance(done)
			if !yield(resp, err) {
				return
			}
		}
	}
}

// fileType is the type of all files of a directory.
const fileType = "text/html"

func (f htmlFile) skipped(size int64) error {
	return &SkippedError{URL: f.url, Status: http.StatusOK, ContentType: fileType, Size: size, Source: f.path}
}

// read returns the file as a response with status 200.
func (f htmlFile) read() (*Response, error) {
	if f.size > MaxPage {
		return nil, f.skipped(f.size)
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, &InputError{Path: f.path, Err: withoutPath(err)}
	}
	defer file.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(file, MaxPage+1))
	if err != nil {
		return nil, &InputError{Path: f.path, Offset: int64(len(body)), Err: withoutPath(err)}
	}
	if len(body) > MaxPage { // it has grown
		return nil, f.skipped(MaxPage + 1)
	}
	return &Response{
		URL:    f.url,
		Status: http.StatusOK,
		Header: http.Header{"Content-Type": {fileType}},
		Body:   body,
		Source: f.path,
	}, nil
}
