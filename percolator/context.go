package percolator

import (
	"context"
	"fmt"
)

// checkContext refuses a nil context, which would be a panic somewhere below, at the latest on the wire.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("percolator: %w: the context is nil", ErrInvalidArgument)
	}
	return nil
}
