"""What tests are made with: real daemons, stores on simulated disks, connections without sockets. No tests."""
