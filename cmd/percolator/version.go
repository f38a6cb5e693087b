package main

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

// Set by the linker (-X main.stampedVersion=v1.2.3) where the source that is built is no checkout,
// from which Go would know them: in the Dockerfile, for instance.
var stampedVersion, stampedRevision, stampedDate string

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

func newVersion() *cobra.Command {
	var output outputFlag
	var short bool
	cmd := &cobra.Command{
		Use:  "version",
		Args: noArgs,
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
			return output.emit(cmd.OutOrStdout(), v, v.write)
		},
	}
	output.add(cmd)
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

func versionOf(info *debug.BuildInfo) string {
	return cmp.Or(stampedVersion, info.Main.Version, "(devel)")
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
	v.Revision, v.Date = cmp.Or(stampedRevision, v.Revision), cmp.Or(stampedDate, v.Date)
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
	t := newTable(w)
	t.row("percolator", v.Version)
	switch {
	case v.Revision != "" && v.Modified:
		t.row("revision", v.Revision+" (modified)")
	case v.Revision != "":
		t.row("revision", v.Revision)
	}
	if v.Date != "" {
		t.row("date", v.Date)
	}
	t.row("go", v.Go)
	t.row("platform", v.Platform)
	for _, name := range versionModules {
		t.row(name, v.Modules[name])
	}
	t.flush()
}
