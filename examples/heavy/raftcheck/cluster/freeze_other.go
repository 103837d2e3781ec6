//go:build !unix

package cluster

import "errors"

func (p *process) freeze() error { return errors.ErrUnsupported }
func (p *process) thaw() error   { return nil }
