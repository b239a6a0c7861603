package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// ownNetwork makes a process start in a network of its own, whose loopback interface is down.
func ownNetwork() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() != 0 {
		// Only root may create one, or a user inside a user namespace of their own.
		const netAdmin = 12
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = []uintptr{netAdmin}
	}
	return attr
}

// startLoopback starts the loopback interface of the network.
func startLoopback() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("start the loopback interface: %w", err)
	}
	// struct ifreq of netdevice(7)
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	_, _, code := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS,
		uintptr(unsafe.Pointer(&request))) //nolint:gosec // the kernel reads a struct of C
	_ = syscall.Close(socket)
	if code != 0 {
		return fmt.Errorf("start the loopback interface: %w", code)
	}
	return nil
}
