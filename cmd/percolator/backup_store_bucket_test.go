package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Cloud Storage is a place as good as a directory for exports, imports and backups.
func TestBucket(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "storage.test") // not parallel, so the default transport is this test's alone
	storage, transport := &cloudStorage{objects: map[string][]byte{}}, http.DefaultTransport
	http.DefaultTransport = storage
	defer func() { http.DefaultTransport = transport }()
	percolatortest.Bubble(t, func(t *testing.T) {
		cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{{Name: "stock"}, {Name: "json"}, {Name: "parquet"}, {Name: "csv"}}})
		cl.must(cli.ExitOK, "set", "stock", "sku1", "name", "chair")
		cl.must(cli.ExitOK, "set", "stock", "sku2", "name", "table")
		for format, table := range map[string]string{"jsonl": "json", "parquet": "parquet", "csv": "csv"} {
			place := "gs://bucket/exports/" + format
			cl.must(cli.ExitOK, "export", "stock", place, "name", "--format", format)
			cl.must(cli.ExitConflict, "export", "stock", place, "name", "--format", format)
			cl.must(cli.ExitOK, "import", table, "--from", place)
			fields := strings.Fields(cl.must(cli.ExitOK, "scan", table).out) // row, column, commit timestamp and value, after a header
			if len(fields) != 12 || fields[4] != "sku1" || fields[7] != "chair" || fields[8] != "sku2" || fields[11] != "table" {
				t.Errorf("imported from %s: %s", place, fields)
			}
		}
		cl.must(cli.ExitUsage, "import", "json", "--from", "gs://bucket/nothing")

		// Files of others stay, and a place that keeps its objects takes an export.
		storage.objects["spark/part-00000-c000.snappy.parquet"] = nil
		cl.must(cli.ExitUsage, "export", "stock", "gs://bucket/spark")
		storage.keeps = true
		cl.must(cli.ExitOK, "export", "stock", "gs://bucket/kept")
		storage.keeps = false
		var left []string
		for name := range storage.objects {
			if strings.HasPrefix(name, "spark/") || strings.Contains(name, "/export-") {
				left = append(left, name)
			}
		}
		if len(left) != 2 { // the file and one marker
			t.Errorf("%q", left)
		}
		cl.must(cli.ExitOK, "backup", "gs://bucket/backup")
		cl.must(cli.ExitOK, "backup", "verify", "gs://bucket/backup")
		storage.damage("backup/chunks/")
		cl.must(cli.ExitFindings, "backup", "verify", "gs://bucket/backup")
	})
}

// cloudStorage is what the client library asks of Cloud Storage, as a transport: a bubble has no
// sockets.
type cloudStorage struct {
	mu      sync.Mutex
	objects map[string][]byte // by name, of one bucket
	keeps   bool              // nobody may delete anything
}

func (s *cloudStorage) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.mu.Lock()
	defer s.mu.Unlock()
	const api, bucket = "/storage/v1/b/bucket/o", "/bucket/"
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost && path == "/upload"+api:
		s.put(w, r)
	case r.Method == http.MethodDelete && s.keeps:
		http.Error(w, "objects are retained", http.StatusForbidden)
	case r.Method == http.MethodDelete && strings.HasPrefix(path, api+"/"):
		delete(s.objects, strings.TrimPrefix(path, api+"/"))
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && path == api:
		s.list(w, r.FormValue("prefix"))
	case r.Method == http.MethodGet && strings.HasPrefix(path, bucket):
		s.get(w, strings.TrimPrefix(path, bucket))
	case r.Method == http.MethodGet && strings.HasPrefix(path, api+"/"):
		s.get(w, strings.TrimPrefix(path, api+"/"))
	default:
		http.Error(w, fmt.Sprint(r.Method, " ", r.URL), http.StatusNotImplemented)
	}
	response := w.Result()
	response.Request = r
	return response, nil
}

func (s *cloudStorage) put(w http.ResponseWriter, r *http.Request) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	var object struct{ Name string }
	var data []byte
	for i := range 2 { // metadata, and the object
		part, err := parts.NextPart()
		if err == nil && i == 0 {
			err = json.NewDecoder(part).Decode(&object)
		} else if err == nil {
			data, err = io.ReadAll(part)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	if _, there := s.objects[object.Name]; there && (s.keeps || r.FormValue("ifGenerationMatch") == "0") {
		http.Error(w, "it exists", http.StatusPreconditionFailed)
		return
	}
	s.objects[object.Name] = data
	_ = json.NewEncoder(w).Encode(map[string]any{"name": object.Name, "bucket": "bucket", "size": fmt.Sprint(len(data))})
}

func (s *cloudStorage) list(w http.ResponseWriter, prefix string) {
	items := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(name, prefix) {
			items = append(items, map[string]any{"name": name, "bucket": "bucket", "size": fmt.Sprint(len(s.objects[name]))})
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
}

func (s *cloudStorage) get(w http.ResponseWriter, name string) {
	data, ok := s.objects[name]
	if !ok {
		http.Error(w, "no such object", http.StatusNotFound)
		return
	}
	_, _ = w.Write(data)
}

// damage inverts the last byte of the first object with a prefix.
func (s *cloudStorage) damage(prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(name, prefix) {
			data := slices.Clone(s.objects[name])
			data[len(data)-1] ^= 0xff
			s.objects[name] = data
			return
		}
	}
}
