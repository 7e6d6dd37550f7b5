;; SPDX-License-Identifier: Apache-2.0
;; One program for many tests: the first letter of its second argument says what it does.
(module
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_res_get" (func $clock_res (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_seek" (func $seek (param i32 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $fdstat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get" (func $filestat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  (table 2 funcref)
  (elem (i32.const 0) $nothing)
  (type $none (func))
  (type $number (func (result i32)))
  (data (i32.const 64) "hello\n")
  (data (i32.const 200) "grown\n")

  (func $nothing)

  ;; Writes `length` bytes at `at` to `fd`, all of them.
  (func $say (param $fd i32) (param $at i32) (param $length i32)
    (loop $more
      (i32.store (i32.const 16) (local.get $at))
      (i32.store (i32.const 20) (local.get $length))
      (if (call $write (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 24))
        (then (call $exit (i32.const 99))))
      (local.set $at (i32.add (local.get $at) (i32.load (i32.const 24))))
      (local.set $length (i32.sub (local.get $length) (i32.load (i32.const 24))))
      (br_if $more (local.get $length))))

  ;; Ends with `id` when an answer is not the one that is wanted.
  (func $want (param $answer i32) (param $wanted i32) (param $id i32)
    (if (i32.ne (local.get $answer) (local.get $wanted)) (then (call $exit (local.get $id)))))

  (func $echo
    (loop $more
      (i32.store (i32.const 0) (i32.const 1024))
      (i32.store (i32.const 4) (i32.const 16384))
      (call $want (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (i32.const 0)
        (i32.const 98))
      (if (i32.load (i32.const 8))
        (then
          (call $say (i32.const 1) (i32.const 1024) (i32.load (i32.const 8)))
          (br $more)))))

  (func $spin (loop $more (drop (i32.load (i32.const 0))) (br $more)))

  (func $descend (param $depth i32) (result i32)
    (i32.add (call $descend (i32.add (local.get $depth) (i32.const 1))) (local.get $depth)))

  ;; Takes pages one by one, uses each, and says so when there are no more.
  (func $hog (local $page i32)
    (loop $more
      (local.set $page (memory.grow (i32.const 1)))
      (if (i32.ne (local.get $page) (i32.const -1))
        (then
          (i32.store8 (i32.shl (local.get $page) (i32.const 16)) (i32.const 1))
          (br $more))))
    (call $say (i32.const 1) (i32.const 200) (i32.const 6)))

  ;; Addresses that are not all in the two pages: every one is answered with "fault", 21.
  (func $pointers
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const 6))
    (call $want (call $write (i32.const 1) (i32.const 131068) (i32.const 1) (i32.const 8))
      (i32.const 21) (i32.const 1))
    (call $want (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 131069))
      (i32.const 21) (i32.const 2))
    ;; eight times this count is 0 in 32 bits
    (call $want (call $write (i32.const 1) (i32.const 0) (i32.const 0x20000000) (i32.const 8))
      (i32.const 21) (i32.const 3))
    (i32.store (i32.const 0) (i32.const 131071))
    (i32.store (i32.const 4) (i32.const 2))
    (call $want (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))
      (i32.const 21) (i32.const 4))
    (i32.store (i32.const 0) (i32.const -1))
    (call $want (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))
      (i32.const 21) (i32.const 5))
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const -1))
    (call $want (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))
      (i32.const 21) (i32.const 6))
    (call $want (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8))
      (i32.const 21) (i32.const 7))
    (call $want (call $random (i32.const 131066) (i32.const 7)) (i32.const 21) (i32.const 8))
    (call $want (call $random (i32.const 16) (i32.const -1)) (i32.const 21) (i32.const 9))
    (call $want (call $clock (i32.const 1) (i64.const 0) (i32.const 131065))
      (i32.const 21) (i32.const 10))
    (call $want (call $clock_res (i32.const 1) (i32.const -8)) (i32.const 21) (i32.const 11))
    (call $want (call $args_sizes (i32.const 131069) (i32.const 0)) (i32.const 21) (i32.const 12))
    (call $want (call $args_sizes (i32.const 0) (i32.const 131070)) (i32.const 21) (i32.const 13))
    (call $want (call $args_get (i32.const 0) (i32.const 131070)) (i32.const 21) (i32.const 14))
    (call $want (call $args_get (i32.const 131068) (i32.const 0)) (i32.const 21) (i32.const 15))
    (call $want (call $environ_sizes (i32.const -1) (i32.const 0)) (i32.const 21) (i32.const 16))
    (call $want (call $fdstat (i32.const 1) (i32.const 131049)) (i32.const 21) (i32.const 17))
    (call $want (call $filestat (i32.const 1) (i32.const 131009)) (i32.const 21) (i32.const 18))
    (call $want (call $poll (i32.const 131025) (i32.const 0) (i32.const 1) (i32.const 512))
      (i32.const 21) (i32.const 19))
    (call $want (call $poll (i32.const 0) (i32.const 131041) (i32.const 1) (i32.const 512))
      (i32.const 21) (i32.const 20))
    (call $want (call $poll (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const -4))
      (i32.const 21) (i32.const 21))
    ;; the very last bytes are fine
    (call $want (call $random (i32.const 131066) (i32.const 6)) (i32.const 0) (i32.const 22))
    (call $want (call $random (i32.const 131072) (i32.const 0)) (i32.const 0) (i32.const 23))
    (call $want (call $clock (i32.const 1) (i64.const 0) (i32.const 131064))
      (i32.const 0) (i32.const 24)))

  ;; What there is not.
  (func $absent
    (call $want (call $prestat (i32.const 3) (i32.const 0)) (i32.const 8) (i32.const 1))
    (call $want (call $prestat (i32.const 0) (i32.const 0)) (i32.const 58) (i32.const 2))
    (call $want (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 5) (i32.const 0)
        (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 0)) (i32.const 8) (i32.const 3))
    (call $want (call $send (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
      (i32.const 58) (i32.const 4))
    (call $want (call $seek (i32.const 1) (i64.const 0) (i32.const 0) (i32.const 0))
      (i32.const 70) (i32.const 5))
    (call $want (call $seek (i32.const 9) (i64.const 0) (i32.const 0) (i32.const 0))
      (i32.const 8) (i32.const 6))
    (call $want (call $read (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 8))
      (i32.const 8) (i32.const 7))
    (call $want (call $write (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 8))
      (i32.const 8) (i32.const 8))
    (call $want (call $clock (i32.const 9) (i64.const 0) (i32.const 0)) (i32.const 28) (i32.const 9))
    (call $want (call $poll (i32.const 0) (i32.const 1024) (i32.const 0) (i32.const 512))
      (i32.const 28) (i32.const 10))
    (call $want (call $yield) (i32.const 0) (i32.const 16))
    (call $want (call $environ_get (i32.const 0) (i32.const 0)) (i32.const 0) (i32.const 17))
    (call $want (call $environ_sizes (i32.const 0) (i32.const 4)) (i32.const 0) (i32.const 11))
    (call $want (i32.load (i32.const 0)) (i32.const 0) (i32.const 12))
    (call $want (call $close (i32.const 2)) (i32.const 0) (i32.const 13))
    (call $want (call $close (i32.const 2)) (i32.const 8) (i32.const 14))
    (call $want (call $write (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 8))
      (i32.const 8) (i32.const 15)))

  ;; Waits for 120 ms on the monotonic clock.
  (func $wait
    (i64.store (i32.const 1024) (i64.const 77))
    (i32.store8 (i32.const 1032) (i32.const 0))
    (i32.store (i32.const 1040) (i32.const 1))
    (i64.store (i32.const 1048) (i64.const 120000000))
    (i32.store16 (i32.const 1064) (i32.const 0))
    (call $want (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 0))
      (i32.const 0) (i32.const 1))
    (call $want (i32.load (i32.const 0)) (i32.const 1) (i32.const 2))
    (call $want (i32.load (i32.const 2048)) (i32.const 77) (i32.const 3)))

  (func (export "_start") (local $letter i32)
    (drop (call $args_sizes (i32.const 0) (i32.const 4)))
    (if (i32.lt_u (i32.load (i32.const 0)) (i32.const 2)) (then (call $exit (i32.const 97))))
    (drop (call $args_get (i32.const 4096) (i32.const 8192)))
    (local.set $letter (i32.load8_u (i32.load (i32.const 4100))))
    (if (i32.eq (local.get $letter) (i32.const 0x68)) ;; h
      (then (call $say (i32.const 1) (i32.const 64) (i32.const 6))))
    (if (i32.eq (local.get $letter) (i32.const 0x61)) ;; a
      (then (call $say (i32.const 2) (i32.const 8192) (i32.load (i32.const 4)))))
    (if (i32.eq (local.get $letter) (i32.const 0x65)) (then (call $echo)))              ;; e
    (if (i32.eq (local.get $letter) (i32.const 0x63)) (then (call $spin)))              ;; c
    (if (i32.eq (local.get $letter) (i32.const 0x67)) (then (call $hog)))               ;; g
    (if (i32.eq (local.get $letter) (i32.const 0x70)) (then (call $pointers)))          ;; p
    (if (i32.eq (local.get $letter) (i32.const 0x6e)) (then (call $absent)))            ;; n
    (if (i32.eq (local.get $letter) (i32.const 0x77)) (then (call $wait)))              ;; w
    (if (i32.eq (local.get $letter) (i32.const 0x78)) (then (call $exit (i32.const 42)))) ;; x
    (if (i32.eq (local.get $letter) (i32.const 0x6f)) ;; o
      (then (drop (i32.load (i32.const 131069)))))
    (if (i32.eq (local.get $letter) (i32.const 0x66)) ;; f
      (then (i32.store offset=4294967295 (i32.const -1) (i32.const 1))))
    (if (i32.eq (local.get $letter) (i32.const 0x75)) (then unreachable))               ;; u
    (if (i32.eq (local.get $letter) (i32.const 0x64)) ;; d
      (then (drop (i32.div_s (i32.const 1) (i32.load (i32.const 60000))))))
    (if (i32.eq (local.get $letter) (i32.const 0x69)) ;; i
      (then (drop (call_indirect (type $number) (i32.const 0)))))
    (if (i32.eq (local.get $letter) (i32.const 0x73)) ;; s
      (then (drop (call $descend (i32.const 0)))))))
