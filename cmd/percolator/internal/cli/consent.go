package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/text"
)

// Consent is what a command is told that changes what cannot be changed back.
type Consent struct{ Yes, DryRun bool }

// AddYes adds --yes.
func (c *Consent) AddYes(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.Yes, "yes", false, "do not ask")
}

// AddDryRun adds --dry-run.
func (c *Consent) AddDryRun(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.DryRun, "dry-run", false, "only print what would be done")
}

// Add adds both.
func (c *Consent) Add(cmd *cobra.Command) {
	c.AddYes(cmd)
	c.AddDryRun(cmd)
}

// Ask asks, unless nothing is to be done or the answer is known.
func (c Consent) Ask(ctx context.Context, cmd *cobra.Command, format string, args ...any) error {
	return Ask(ctx, cmd, c.Yes || c.DryRun, format, args...)
}

// Ask returns an error unless the user agrees to what cannot be undone.
func Ask(ctx context.Context, cmd *cobra.Command, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	_, _ = fmt.Fprint(cmd.ErrOrStderr(), text.Line(fmt.Sprintf(format, args...)), " [y/N] ")
	line, err := await(ctx, func() (string, error) {
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer is no
		return line, nil
	})
	if err != nil {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
		return fmt.Errorf("not confirmed: %w", err)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr())
	return Usagef("not confirmed; --yes skips the question")
}
