package cli

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
)

// What is printed of a release, of a modified checkout, and of a build that knows nothing.
func TestVersionOutput(t *testing.T) {
	t.Parallel()
	modules := []*debug.Module{
		{Path: "cloud.google.com/go/bigtable", Version: "v1.58.0"}, {Path: "cloud.google.com/go/spanner", Version: "v1.96.1"},
		{Path: "golang.org/x/sync", Version: "v0.24.0"},
		{Path: "google.golang.org/grpc", Version: "v1.84.0", Replace: &debug.Module{Path: "../grpc"}},
	}
	settings := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "-trimpath", Value: "true"}, {Key: "vcs", Value: "git"}, {Key: "vcs.modified", Value: modified},
			{Key: "vcs.revision", Value: "40c40e6d9c4a4b9fa2d1d3bd4a1f5f4d4bb0a001"}, {Key: "vcs.time", Value: "2026-11-20T10:11:12Z"},
		}
	}
	var text strings.Builder
	for _, info := range []*debug.BuildInfo{
		{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}, Deps: modules, Settings: settings("false")},
		{GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}, Deps: modules, Settings: settings("true")},
		{GoVersion: "go1.26.8"},
	} {
		v := newVersionInfo(info)
		for _, format := range []string{"table", JSON} {
			if err := (&Output{Format: format}).Emit(&text, v, v.write); err != nil {
				t.Fatal(err)
			}
			text.WriteString("--\n")
		}
	}
	golden.Compare(t, "version.txt", strings.ReplaceAll(text.String(), runtime.GOOS+"/"+runtime.GOARCH, "linux/amd64"))
}
