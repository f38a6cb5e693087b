package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Stamp is what the linker has told the program of its source, where it has.
type Stamp struct{ Version, Revision, Date string }

// Stamped is set before any command runs.
var Stamped Stamp

// versionInfo is what "version" prints.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"` // of the revision
	Modified bool   `json:"modified"`       // since the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`

	// Modules are those on whose version it depends how Bigtable, Spanner and the oracle are spoken
	// to.
	Modules map[string]string `json:"modules"`
}

// versionModules are the modules that "version" shows, in its order.
var versionModules = []string{"cloud.google.com/go/bigtable", "cloud.google.com/go/spanner", "google.golang.org/grpc"}

// NewVersion is "version".
func NewVersion() *cobra.Command {
	var output Output
	var short bool
	cmd := &cobra.Command{
		Use: "version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), buildVersion())
				return err
			}
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return errors.New("this program was built without version information")
			}
			v := newVersionInfo(info)
			return output.Emit(cmd.OutOrStdout(), v, v.write)
		},
	}
	output.Add(cmd)
	cmd.Flags().BoolVar(&short, "short", false, "print the version alone")
	return cmd
}

// buildVersion is the version of this program's source.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return versionOf(info)
	}
	return versionOf(&debug.BuildInfo{})
}

// ProgramVersion is the version of this program, as operators see it.
func ProgramVersion() string {
	version := buildVersion()
	return version[:min(len(version), 128)]
}

func versionOf(info *debug.BuildInfo) string {
	return cmp.Or(Stamped.Version, info.Main.Version, "(devel)")
}

func newVersionInfo(info *debug.BuildInfo) versionInfo {
	v := versionInfo{Version: versionOf(info), Go: info.GoVersion, Platform: runtime.GOOS + "/" + runtime.GOARCH, Modules: map[string]string{}}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Revision = setting.Value
		case "vcs.time":
			v.Date = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	v.Revision, v.Date = cmp.Or(Stamped.Revision, v.Revision), cmp.Or(Stamped.Date, v.Date)
	for _, name := range versionModules {
		v.Modules[name] = "unknown"
	}
	for _, m := range info.Deps {
		if _, shown := v.Modules[m.Path]; !shown {
			continue
		}
		if m.Replace != nil {
			m = &debug.Module{Path: m.Path, Version: strings.TrimSpace(m.Replace.Path + " " + m.Replace.Version)}
		}
		v.Modules[m.Path] = m.Version
	}
	return v
}

func (v versionInfo) write(w io.Writer) {
	t := NewTable(w)
	t.Row("percolator", v.Version)
	switch {
	case v.Revision != "" && v.Modified:
		t.Row("revision", v.Revision+" (modified)")
	case v.Revision != "":
		t.Row("revision", v.Revision)
	}
	if v.Date != "" {
		t.Row("date", v.Date)
	}
	t.Row("go", v.Go)
	t.Row("platform", v.Platform)
	for _, name := range versionModules {
		t.Row(name, v.Modules[name])
	}
	t.Flush()
}
