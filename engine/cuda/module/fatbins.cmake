# Turns engine/cuda/kernels/*.cu into fatbins and puts them into CUDA_FATBINS_S, as the table that
# module/cuda.cpp reads: name, address, size per file, and the headers of rows: name, text.
#
# Without TYCHO_CUDA_ARCHS two kinds are compiled, and newer GPUs take the PTX of the second: a build for
# one's own machine need not wait for seven. Packages are built with TYCHO_CUDA_ARCHS=all.
execute_process(COMMAND ${TYCHO_NVCC} --list-gpu-arch OUTPUT_VARIABLE known)
execute_process(COMMAND ${TYCHO_NVCC} --help OUTPUT_VARIABLE help)
set(archs ${TYCHO_CUDA_ARCHS})
if(NOT archs)
  set(archs 75 80)
elseif(archs STREQUAL "all")
  set(archs)
  foreach(arch 70 75 80 86 89 90 100 120)
    if(known MATCHES "compute_${arch}\n")
      list(APPEND archs ${arch})
    endif()
  endforeach()
endif()
if(help MATCHES "--compress-mode")
  set(compress --compress-mode=size)
endif()
set(codes)
foreach(arch ${archs})
  list(APPEND codes -gencode arch=compute_${arch},code=sm_${arch})
  set(newest ${arch})
endforeach()
list(APPEND codes -gencode arch=compute_${newest},code=compute_${newest})
message(STATUS "CUDA kernels for ${archs} (${TYCHO_NVCC})")

# What ptxas says of registers and spills stays beside each fatbin, for the tests.
set(CUDA_FATBINS_S ${CMAKE_BINARY_DIR}/cuda/fatbins.S)
set(bytes ".section .rodata\n")
set(rows ".section .data.rel.ro,\"aw\"\n.global tycho_cuda_fatbins\n.balign 8\ntycho_cuda_fatbins:\n")
set(outputs)
foreach(file ${CUDA_KERNELS})
  get_filename_component(name ${file} NAME_WE)
  set(output ${CMAKE_BINARY_DIR}/cuda/${name}.fatbin)
  add_custom_command(OUTPUT ${output} DEPENDS ${file} ${CUDA_HEADERS} VERBATIM
    COMMAND sh -c "\"$0\" \"$@\" > ${output}.txt 2>&1 || { cat ${output}.txt >&2; exit 1; }" ${TYCHO_NVCC}
            -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr -Xptxas -v -fatbin ${compress}
            -I${CMAKE_SOURCE_DIR} ${codes} -o ${output} ${file}
    COMMENT "CUDA kernels of ${name}.cu")
  string(APPEND bytes "fn_${name}: .asciz \"${name}\"\n.balign 64\nfb_${name}: .incbin \"${output}\"\nfe_${name}:\n")
  string(APPEND rows ".quad fn_${name}, fb_${name}, fe_${name} - fb_${name}\n")
  list(APPEND outputs ${output})
endforeach()
string(JOIN " " arch_text ${archs})
execute_process(COMMAND ${TYCHO_NVCC} --version OUTPUT_VARIABLE version)
string(REGEX REPLACE ".*release ([0-9]+\\.[0-9]+).*" "\\1" version "${version}")
string(APPEND bytes ".global tycho_cuda_archs, tycho_cuda_toolkit\ntycho_cuda_archs: .asciz \"${arch_text}\"\ntycho_cuda_toolkit: .asciz \"${version}\"\n")
string(APPEND rows ".quad 0, 0, 0\n.global tycho_cuda_headers\ntycho_cuda_headers:\n")
set(n 0)
foreach(file ${CUDA_ROW_HEADERS})
  string(APPEND bytes "hn_${n}: .asciz \"${file}\"\nhb_${n}: .incbin \"${CMAKE_SOURCE_DIR}/${file}\"\n.byte 0\n")
  string(APPEND rows ".quad hn_${n}, hb_${n}\n")
  list(APPEND outputs ${CMAKE_SOURCE_DIR}/${file})
  math(EXPR n "${n} + 1")
endforeach()
file(CONFIGURE OUTPUT ${CUDA_FATBINS_S} CONTENT
     "${bytes}${rows}.quad 0, 0\n.section .note.GNU-stack,\"\",@progbits\n" @ONLY)
set_source_files_properties(${CUDA_FATBINS_S} PROPERTIES OBJECT_DEPENDS "${outputs}")
