// runc-lab is before the real runc on hosts that share the machine's kernel.
//
// Where the machine lacks CAP_SYS_RESOURCE, a negative oomScoreAdj or a raised rlimit in a container's config makes runc
// fail; both are taken out. On an emulated arm64 host the runc behind it is the machine's own, the network hook of docker
// goes (its path is qemu's there), and seccomp goes (its filters name the system calls of the wrong arch).
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const native = "/usr/lib/eggo-lab/runc"

func main() {
	if bundle := bundleOf(os.Args[1:]); bundle != "" {
		if err := soften(filepath.Join(bundle, "config.json")); err != nil {
			fmt.Fprintln(os.Stderr, "runc-lab:", err)
		}
	}
	for _, path := range []string{native, "/usr/local/bin/runc", "/usr/sbin/runc", "/usr/bin/runc", "/opt/bin/runc"} {
		if _, err := os.Stat(path); err == nil && (path != native || emulated()) {
			err = syscall.Exec(path, append([]string{"runc"}, os.Args[1:]...), os.Environ())
			fmt.Fprintln(os.Stderr, "runc-lab:", err)
			os.Exit(1)
		}
	}
	fmt.Fprintln(os.Stderr, "runc-lab: runc is not installed")
	os.Exit(127)
}

func bundleOf(words []string) string {
	for i, word := range words {
		if (word == "--bundle" || word == "-b") && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}

func emulated() bool {
	_, err := os.Stat(native)
	return err == nil
}

func soften(path string) error {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	config := map[string]interface{}{}
	if err := decoder.Decode(&config); err != nil {
		return err
	}
	if process, ok := config["process"].(map[string]interface{}); ok {
		if number, ok := process["oomScoreAdj"].(json.Number); ok && len(number) > 0 && number[0] == '-' {
			process["oomScoreAdj"] = 0
		}
		delete(process, "rlimits")
	}
	if emulated() {
		delete(config, "hooks")
		if linux, ok := config["linux"].(map[string]interface{}); ok {
			delete(linux, "seccomp")
		}
	}
	changed, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, changed, 0o600)
}
