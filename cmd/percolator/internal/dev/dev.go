// Package dev has "percolator dev": an emulator, an oracle and a console in one process.
package dev

import (
	"errors"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
)

// devFlags are the flags of "dev".
type devFlags struct {
	log    cli.LogFlags
	output cli.Output

	bigtable, oracle, console string
	project, instance         string
	data, schema              string
	saveEvery                 time.Duration
}

// consoleOff is the value of --console for no console.
const consoleOff = "off"

func New() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:  "dev",
		RunE: func(cmd *cobra.Command, _ []string) error { return dev(cmd, f) },
	}
	f.add(cmd)
	return cmd
}

func (f *devFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.bigtable, "bigtable", "127.0.0.1:8086", "loopback address of the emulator; port 0 for a free one [$PERCOLATOR_DEV_BIGTABLE]")
	flags.StringVar(&f.oracle, "oracle", "127.0.0.1:7070", "loopback address of the oracle; port 0 for a free one [$PERCOLATOR_DEV_ORACLE]")
	flags.StringVar(&f.console, "console", "127.0.0.1:7072", `loopback address of the console; port 0 for a free one, "off" for none [$PERCOLATOR_DEV_CONSOLE]`)
	flags.StringVar(&f.project, "project", "dev", "name of the project [$PERCOLATOR_PROJECT]")
	flags.StringVar(&f.instance, "instance", "dev", "name of the Bigtable instance [$PERCOLATOR_INSTANCE]")
	flags.StringVar(&f.data, "data", "", "file of the snapshot: read at the start, written at the end; without it all is lost at the end [$PERCOLATOR_DEV_DATA]")
	flags.StringVar(&f.schema, "schema", "", "file of a schema to apply at the start [$PERCOLATOR_DEV_SCHEMA]")
	flags.DurationVar(&f.saveEvery, "save-every", time.Minute, "how often to write a changed store to --data; 0: only at the end [$PERCOLATOR_DEV_SAVE_EVERY]")
	_ = cmd.MarkFlagFilename("data")
	_ = cmd.MarkFlagFilename("schema", "yaml", "yml", "json")
	f.output.Add(cmd)
	f.log.Add(cmd)
}

func (f *devFlags) check() error {
	addresses := map[string]string{"bigtable": f.bigtable, "oracle": f.oracle, "console": f.console}
	if f.console == consoleOff {
		delete(addresses, "console")
	}
	for flag, address := range addresses {
		if err := checkLoopback(flag, address); err != nil {
			return err
		}
	}
	switch {
	case f.project == "" || f.instance == "":
		return cli.Usagef("--project and --instance need a name")
	case f.saveEvery < 0 || f.saveEvery > 0 && f.saveEvery < time.Second:
		return cli.Usagef("--save-every %v is neither 0 nor at least 1s", f.saveEvery)
	}
	return nil
}

// checkLoopback refuses addresses that others reach: nothing here asks who calls.
func checkLoopback(flag, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return cli.Usagef("--%s: %w", flag, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return cli.Usagef("--%s %s is not a loopback address: all who reach it could read and change everything", flag, address)
	}
	return nil
}

// taken explains a failure to listen.
func taken(flag, address string, err error) error {
	return cli.Usagef("--%s %s: %w (is another percolator dev running? --%s 127.0.0.1:0 takes a free port)", flag, address, rootCause(err), flag)
}

// rootCause leaves out of a network error what the message says anyway.
func rootCause(err error) error {
	if op := new(net.OpError); errors.As(err, &op) {
		return op.Err
	}
	return err
}
