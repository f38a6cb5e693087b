package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func newSchema() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Show and change the tables, observed columns and indexes of an instance",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSchemaShow(), newSchemaDiff(), newSchemaApply(), newSchemaBackfill(), newSchemaVerify())
	return cmd
}

const schemaFileHelp = `A schema file is YAML (or JSON):

  tables:
    - name: documents
      observed: [contents]     # columns whose writes notify observers
      weak: [recount]          # columns that can only be notified
      indexes:
        - {name: by-url, column: url, unique: true}
      splits: [g, p]           # only for a table that is created
  timing: {requestLifetime: 30s, metaMaxAge: 45s}   # optional, never changes

Other columns need no declaration. A field that is not known is an error.`

// instanceFlags name a Bigtable instance, for commands that need no oracle.
type instanceFlags struct {
	project, instance, appProfile string
	timeout                       time.Duration
}

func (f *instanceFlags) add(cmd *cobra.Command, timeout time.Duration) {
	flags := cmd.Flags()
	flags.StringVar(&f.project, "project", "", "project of the Bigtable instance")
	flags.StringVar(&f.instance, "instance", "", "Bigtable instance")
	flags.StringVar(&f.appProfile, "app-profile", "", "Bigtable application profile: single-cluster routing, transactional writes")
	flags.DurationVar(&f.timeout, "timeout", timeout, "how long the command may take")
	bindEnv(flags, "project", "PERCOLATOR_PROJECT")
	bindEnv(flags, "instance", "PERCOLATOR_INSTANCE")
	bindEnv(flags, "app-profile", "PERCOLATOR_APP_PROFILE")
}

func (f *instanceFlags) check() error {
	switch {
	case f.project == "" || f.instance == "":
		return usagef("--project and --instance are needed")
	case f.timeout <= 0:
		return usagef("--timeout %v is not above 0", f.timeout)
	}
	return nil
}

// with calls do for as long as --timeout allows.
func (f *instanceFlags) with(cmd *cobra.Command, do func(ctx context.Context) error) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	return do(ctx)
}

// schemaArg is the Args of a command that takes a schema file.
func schemaArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef(`%s takes a schema file, "-" for the standard input`, cmd.CommandPath())
	}
	return nil
}

// schemaFrom reads the schema file that is an argument.
func schemaFrom(cmd *cobra.Command, path string) (*percolator.Schema, error) {
	if path == "-" {
		return decodeSchemaFile("the standard input", cmd.InOrStdin())
	}
	return readSchema(path)
}

// indexStateText says in a word how far an index is.
func indexStateText(st admin.IndexState) string {
	if st.Building {
		return "building"
	}
	return "ready"
}

func backfillCommand(table, index string) string {
	return fmt.Sprintf("percolator schema backfill %s %s", table, index)
}
