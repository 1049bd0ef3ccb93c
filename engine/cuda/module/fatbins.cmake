# Turns engine/cuda/kernels/*.cu into fatbins and puts them into CUDA_FATBINS_S, as the table that
# module/cuda.cpp reads: name, address, size per file.
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

set(CUDA_FATBINS_S ${CMAKE_BINARY_DIR}/cuda/fatbins.S)
set(bytes ".section .rodata\n")
set(rows ".section .data.rel.ro,\"aw\"\n.global tycho_cuda_fatbins\n.balign 8\ntycho_cuda_fatbins:\n")
set(outputs)
foreach(file ${CUDA_KERNELS})
  get_filename_component(name ${file} NAME_WE)
  set(output ${CMAKE_BINARY_DIR}/cuda/${name}.fatbin)
  add_custom_command(OUTPUT ${output} DEPENDS ${file} ${CUDA_HEADERS} VERBATIM
    COMMAND ${TYCHO_NVCC} -std=c++20 -O3 --fmad=false -fatbin ${compress} -I${CMAKE_SOURCE_DIR} ${codes} -o ${output} ${file}
    COMMENT "CUDA kernels of ${name}.cu")
  string(APPEND bytes "fn_${name}: .asciz \"${name}\"\n.balign 64\nfb_${name}: .incbin \"${output}\"\nfe_${name}:\n")
  string(APPEND rows ".quad fn_${name}, fb_${name}, fe_${name} - fb_${name}\n")
  list(APPEND outputs ${output})
endforeach()
file(CONFIGURE OUTPUT ${CUDA_FATBINS_S} CONTENT
     "${bytes}${rows}.quad 0, 0, 0\n.section .note.GNU-stack,\"\",@progbits\n" @ONLY)
set_source_files_properties(${CUDA_FATBINS_S} PROPERTIES OBJECT_DEPENDS "${outputs}")
